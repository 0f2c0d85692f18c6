"""Prompts that begin alike are read once, and nobody can tell by what they are answered."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsigym.local.tinker.cache import PromptCache, bytes_per_token
from rsigym.local.tinker.engine import Engine, Sample, SampleResult, SampleSpec
from rsigym.local.tinker.lora import Adapter
from rsigym.local.tinker.model import Decoder
from rsigym.local.tinker.prefixes import BLOCK, PrefixCache, keys_of
from rsigym.local.tinker.sampler import Sampler
from rsigym.local.tinker.specs import LoraSpec
from tests.local.tinker.engine_support import prompt, train_away


@pytest.fixture(scope="module")
def decoder(tiny_folder: Path) -> Decoder:
    return Decoder(tiny_folder, torch.float32)


class Bench:
    """A sampler stepped by hand, with room for so many known blocks."""

    def __init__(self, decoder: Decoder, blocks: int = 100, cache_bytes: int = 2**24) -> None:
        self.size = blocks
        block_bytes = BLOCK * bytes_per_token(decoder.architecture, decoder.dtype)
        self.sampler = Sampler(
            decoder, Path(), cache_bytes=cache_bytes, prefix_bytes=blocks * block_bytes
        )

    def submit(self, *specs: SampleSpec) -> list[Future[SampleResult]]:
        futures = [Future[SampleResult]() for _ in specs]
        for spec, future in zip(specs, futures, strict=True):
            self.sampler.submit(spec, None, future)
        return futures

    def run(self, *specs: SampleSpec) -> list[SampleResult]:
        """The answers to requests that come together."""
        futures = self.submit(*specs)
        self.finish()
        return [future.result(0) for future in futures]

    def finish(self) -> None:
        while self.sampler.busy:
            self.sampler.step()
            assert len(self.sampler.prefixes) <= self.size


def joined(*parts: np.ndarray) -> SampleSpec:
    return SampleSpec(np.concatenate(parts), 1, 6, 1.0, seed=3)


def same(first: Sequence[SampleResult], second: Sequence[SampleResult]) -> bool:
    def equal(one: Sample, other: Sample) -> bool:
        return one.tokens.tolist() == other.tokens.tolist() and np.allclose(
            one.logprobs, other.logprobs, atol=1e-4
        )

    pairs = zip(first, second, strict=True)
    return all(all(map(equal, one.samples, other.samples)) for one, other in pairs)


def cached(results: Sequence[SampleResult]) -> list[int]:
    return [result.cached_tokens for result in results]


def test_answers_are_the_same_with_and_without_known_prefixes(decoder: Decoder) -> None:
    system, turn = prompt(300), prompt(90, seed=1)
    specs = [
        *(replace(joined(system, prompt(5 + 9 * i, seed=i)), num_samples=2) for i in range(6)),
        joined(system, turn),
        joined(system, turn, prompt(500, seed=2)),
        joined(system[:100], turn),
        joined(system),
        replace(joined(system, turn), temperature=0.0),
    ]
    with_prefixes, without = Bench(decoder), Bench(decoder, blocks=0)
    expected = without.run(*specs)
    assert cached(expected) == [0] * len(specs)
    assert same(with_prefixes.run(*specs), expected)
    again = with_prefixes.run(*specs)
    assert same(again, expected)
    assert cached(again) == [(len(spec.prompt) - 1) // BLOCK * BLOCK for spec in specs]


def test_prompts_that_come_together_wait_for_the_first_of_them(decoder: Decoder) -> None:
    shared = prompt(200)
    specs = [joined(shared, prompt(30, seed=i)) for i in range(1, 6)]
    specs.insert(1, joined(prompt(200, seed=9)))
    assert cached(Bench(decoder).run(*specs)) == [0, 0, 192, 192, 192, 192]


def test_a_prompt_goes_on_from_the_longest_that_it_continues(decoder: Decoder) -> None:
    bench = Bench(decoder)
    turns = [prompt(64, seed=i) for i in range(4)]
    growing = [joined(*turns[: count + 1]) for count in range(4)]
    assert cached([bench.run(spec)[0] for spec in growing]) == [0, 64, 128, 192]


def test_the_last_token_of_a_known_prompt_is_read(decoder: Decoder) -> None:
    bench = Bench(decoder)
    spec = joined(prompt(2 * BLOCK))
    first, second = bench.run(spec)[0], bench.run(spec)[0]
    assert cached([first, second]) == [0, BLOCK]
    assert same([first], [second])


def test_a_prompt_that_is_scored_is_read_in_full_and_is_known_after(decoder: Decoder) -> None:
    bench = Bench(decoder)
    spec = joined(prompt(100))
    bench.run(spec)
    scored = bench.run(replace(spec, prompt_logprobs=True))[0]
    assert scored.cached_tokens == 0
    assert scored.prompt_logprobs is not None
    assert np.isfinite(scored.prompt_logprobs[1:]).all()
    other = Bench(decoder)
    other.run(replace(spec, prompt_logprobs=True))
    assert cached(other.run(spec)) == [96]


def test_weights_know_only_what_they_have_read_themselves(engine: Engine, tmp_path: Path) -> None:
    spec = SampleSpec(prompt(100, seed=77), 1, 6, 0.0)
    folder = tmp_path / "adapter"
    seen: list[SampleResult] = []
    for where in (None, train_away(engine, "prefix-1", folder, seed=5)):
        seen += [engine.sample(spec, where).result() for _ in range(2)]
    # A checkpoint that takes the place of another is another.
    train_away(engine, "prefix-2", folder, seed=6)
    seen += [engine.sample(spec, folder).result() for _ in range(2)]
    assert cached(seen) == [0, 96, 0, 96, 0, 96]
    assert same(seen[::2], seen[1::2])
    assert len({tuple(result.samples[0].tokens) for result in seen}) == 3


def test_a_key_dies_with_its_adapter(decoder: Decoder) -> None:
    adapters = [Adapter(decoder.architecture, LoraSpec(1, seed=0)) for _ in range(2)]
    tokens = list(range(BLOCK))
    first, second, base = (keys_of(tokens, adapter)[0] for adapter in (*adapters, None))
    assert len({first, second, base}) == 3
    assert first == keys_of(tokens, adapters[0])[0]
    adapters.clear()
    assert first[0] is not None
    assert first[0]() is None
    assert first not in (second, base)


def test_memory_is_bounded_under_many_long_prompts(decoder: Decoder) -> None:
    shared = [prompt(400, seed=i) for i in range(4)]
    specs = [joined(shared[i % 4], prompt(300, seed=10 + i)) for i in range(32)]
    expected = Bench(decoder, blocks=0).run(*specs)
    # A place for less than one of them; `Bench` watches that it is kept to.
    small = Bench(decoder, blocks=15)
    assert same(small.run(*specs), expected)
    assert len(small.sampler.prefixes) == 15


def test_a_prompt_longer_than_the_memory_leaves_its_beginning(decoder: Decoder) -> None:
    bench = Bench(decoder, blocks=3)
    spec = joined(prompt(300))
    assert cached([*bench.run(spec), *bench.run(spec)]) == [0, 3 * BLOCK]


def test_prompts_go_on_when_the_one_they_wait_for_is_cancelled(decoder: Decoder) -> None:
    # It takes two steps to read: it is cancelled between them.
    shared = prompt(900)
    specs = [joined(prompt(500, seed=8)), *(joined(shared, prompt(9, seed=i)) for i in range(3))]
    expected = Bench(decoder, blocks=0).run(*specs)
    bench = Bench(decoder)
    futures = bench.submit(*specs)
    bench.sampler.step()
    assert futures[1].cancel()
    bench.finish()
    results = [future.result(0) for future in (futures[0], *futures[2:])]
    assert same(results, [expected[0], *expected[2:]])
    # What it had read is known; the next reads the rest, and the last has all of it from there.
    assert cached(results) == [0, 524 // BLOCK * BLOCK, 900 // BLOCK * BLOCK]


def test_a_row_that_is_sent_back_is_told_what_was_cached_when_it_came(decoder: Decoder) -> None:
    specs = [replace(joined(prompt(70, seed=i)), num_samples=3, max_tokens=150) for i in range(3)]
    expected = Bench(decoder, blocks=0).run(*specs)
    token_bytes = bytes_per_token(decoder.architecture, decoder.dtype)
    small = Bench(decoder, cache_bytes=500 * token_bytes)
    results = small.run(*specs)
    assert same(results, expected)
    assert cached(results) == [0, 0, 0]


@given(
    prompts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), max_size=12),
    size=st.integers(0, 8),
)
def test_what_is_found_is_what_the_prompt_begins_with(prompts: list[list[int]], size: int) -> None:
    prefixes = PrefixCache(size)
    for kinds in prompts:
        # A block of one kind of token; keys and values are the tokens themselves.
        tokens = np.repeat(kinds, BLOCK)
        keys = keys_of(tokens.tolist(), None)
        found = prefixes.find(keys)
        written = torch.from_numpy(tokens)[:, None, None].float()
        for index, block in enumerate(found):
            expected = written[index * BLOCK : (index + 1) * BLOCK, 0, 0]
            assert torch.equal(block[0, 0, 0, :, 0], expected)
        assert prefixes.missing(keys) == (keys[len(found)] if len(found) < len(keys) else None)
        cache = PromptCache(len(tokens))
        cache.write(0, 0, written, written)
        prefixes.keep(keys, cache)
        assert len(prefixes) <= size
        assert len(prefixes.find(keys)) == min(size, len(keys))
