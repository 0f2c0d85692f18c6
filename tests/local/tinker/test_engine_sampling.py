"""What the engine samples is what the model says, in any company."""

import re
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from rsigym.local.tinker.engine import Engine, EngineError, Sample, SampleResult, SampleSpec
from rsigym.local.tinker.model import Decoder
from rsigym.local.tinker.sampler import Sampler
from tests.local.tinker.engine_support import (
    VARIANTS,
    hugging_face,
    prompt,
    tiny_engine,
    train_away,
)


@pytest.fixture(scope="module")
def adapters(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("adapters")
    return [train_away(engine, f"sampled-{seed}", root / str(seed), seed=seed) for seed in (1, 2)]


def same(first: Sample, second: Sample) -> bool:
    return (
        first.tokens.tolist() == second.tokens.tolist()
        and first.stop_reason == second.stop_reason
        and bool(np.allclose(first.logprobs, second.logprobs, atol=1e-4))
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_greedy_samples_of_twenty_prompts_equal_hugging_face_generate(
    variant: str, tmp_path: Path
) -> None:
    prompts = [prompt(3 + 7 * i, seed=i) for i in range(20)]
    with tiny_engine(tmp_path, **VARIANTS[variant]) as engine:
        judge = hugging_face(tmp_path)
        futures = [engine.sample(SampleSpec(p, 1, 16, 0.0, stop_ids=(2,)), None) for p in prompts]
        for tokens, future in zip(prompts, futures, strict=True):
            ids = torch.from_numpy(tokens[None]).long()
            expected = judge.generate(ids, max_new_tokens=16, do_sample=False)[0, len(tokens) :]
            assert future.result().samples[0].tokens.tolist() == expected.tolist()


def test_prompt_and_sample_logprobs_equal_a_plain_forward_pass(
    engine: Engine, tiny_folder: Path
) -> None:
    tokens = prompt(300)
    spec = SampleSpec(
        tokens, 1, 8, 0.7, seed=1, top_p=0.9, prompt_logprobs=True, topk_prompt_logprobs=3
    )
    result = engine.sample(spec, None).result()
    sample = result.samples[0]
    ids = torch.from_numpy(np.concatenate([tokens, sample.tokens])).long()
    with torch.no_grad():
        all_logprobs = hugging_face(tiny_folder)(ids[None]).logits[0].log_softmax(-1)
    expected = all_logprobs[:-1].gather(1, ids[1:, None])[:, 0].numpy()
    assert result.prompt_logprobs is not None
    assert np.isnan(result.prompt_logprobs[0])
    np.testing.assert_allclose(result.prompt_logprobs[1:], expected[: len(tokens) - 1], atol=1e-3)
    np.testing.assert_allclose(sample.logprobs, expected[len(tokens) - 1 :], atol=1e-3)
    assert result.topk_prompt_logprobs is not None
    top_ids, top_logprobs = result.topk_prompt_logprobs
    best = all_logprobs[: len(tokens) - 1].topk(3)
    assert top_ids[0].tolist() == [-1, -1, -1]
    assert top_ids[1:].tolist() == best.indices.tolist()
    np.testing.assert_allclose(top_logprobs[1:], best.values.numpy(), atol=1e-3)


def test_two_adapters_and_the_base_in_one_batch_give_what_each_gives_alone(
    engine: Engine, adapters: list[Path]
) -> None:
    requests = [
        (SampleSpec(prompt(5 + 9 * i, seed=i), 1, 20, temperature, seed=i), where)
        for i, where in enumerate([None, adapters[0], adapters[1], None, adapters[0]])
        for temperature in (0.0, 1.0)
    ]
    alone = [engine.sample(*request).result().samples[0] for request in requests]
    together = [engine.sample(*request) for request in requests]
    for sample, future in zip(alone, together, strict=True):
        assert same(future.result().samples[0], sample)
    greedy = SampleSpec(prompt(5), 1, 20, 0.0)
    three = [engine.sample(greedy, where).result().samples[0] for where in (None, *adapters)]
    assert len({tuple(sample.tokens) for sample in three}) == 3


def test_a_saved_adapter_is_read_anew_when_its_folder_is_written_anew(
    engine: Engine, tmp_path: Path
) -> None:
    spec = SampleSpec(prompt(8), 1, 12, 0.0)
    train_away(engine, "rewritten-1", tmp_path / "adapter", seed=5)
    before = engine.sample(spec, tmp_path / "adapter").result().samples[0]
    train_away(engine, "rewritten-2", tmp_path / "adapter", seed=6)
    assert not same(engine.sample(spec, tmp_path / "adapter").result().samples[0], before)


def test_the_same_seed_gives_the_same_samples_whatever_else_is_in_the_batch(
    engine: Engine,
) -> None:
    spec = SampleSpec(prompt(12), 3, 16, 1.0, seed=7)
    alone = engine.sample(spec, None).result().samples
    others = [engine.sample(SampleSpec(prompt(40, seed=i), 2, 30, 1.0), None) for i in range(4)]
    crowded = engine.sample(spec, None).result().samples
    assert all(same(*pair) for pair in zip(alone, crowded, strict=True))
    assert len({tuple(sample.tokens) for sample in alone}) == 3
    assert all(len(other.result().samples) == 2 for other in others)
    unseeded = [
        engine.sample(SampleSpec(prompt(12), 1, 16, 1.0), None).result().samples[0]
        for _ in range(2)
    ]
    assert not same(*unseeded)


def test_rows_that_outgrow_the_cache_are_sent_back_and_end_the_same(
    tiny_folder: Path, engine: Engine
) -> None:
    specs = [SampleSpec(prompt(20 + 30 * i, seed=i), 3, 200, 1.0, seed=i) for i in range(4)]
    expected = [engine.sample(spec, None).result().samples for spec in specs]
    # Two layers of two key heads of 16 floats: half a kilobyte a token. 600 tokens hold three
    # rows until each has written a hundred or so.
    small = Sampler(Decoder(tiny_folder, torch.float32), tiny_folder, cache_bytes=512 * 600)
    futures = [Future[SampleResult]() for _ in specs]
    for spec, future in zip(specs, futures, strict=True):
        small.submit(spec, None, future)
    while small.busy:
        small.step()
    for samples, future in zip(expected, futures, strict=True):
        assert all(same(*pair) for pair in zip(samples, future.result().samples, strict=True))


def test_a_sample_ends_with_its_stop_token(engine: Engine) -> None:
    free = engine.sample(SampleSpec(prompt(9), 1, 12, 0.0), None).result().samples[0]
    stop = int(free.tokens[5])
    first = free.tokens.tolist().index(stop)
    spec = SampleSpec(prompt(9), 1, 12, 0.0, stop_ids=(stop,))
    sample = engine.sample(spec, None).result().samples[0]
    assert sample.tokens.tolist() == free.tokens[: first + 1].tolist()
    assert len(sample.logprobs) == first + 1
    assert sample.stop_reason == "stop"
    assert free.stop_reason == "length"


def test_a_sample_ends_with_the_token_that_completes_a_stop_string(
    engine: Engine, tiny_folder: Path
) -> None:
    free = engine.sample(SampleSpec(prompt(9), 1, 200, 1.0, seed=1), None).result().samples[0]
    tokens = free.tokens.tolist()
    tokenizer = Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
    found = re.search("[ -~]{4}", tokenizer.decode(tokens, skip_special_tokens=False))
    assert found is not None
    string = found[0]
    spec = SampleSpec(prompt(9), 1, 200, 1.0, seed=1, stop_strings=("not there", string))
    sample = engine.sample(spec, None).result().samples[0]
    kept = sample.tokens.tolist()
    assert sample.stop_reason == "stop"
    assert string in tokenizer.decode(kept, skip_special_tokens=False)
    assert string not in tokenizer.decode(kept[:-1], skip_special_tokens=False)
    assert kept == tokens[: len(kept)]


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 1e-6}, {"top_p": 0.0}])
def test_the_narrowest_sampling_is_greedy(engine: Engine, narrow: dict[str, float]) -> None:
    greedy = engine.sample(SampleSpec(prompt(9), 1, 12, 0.0), None).result().samples[0]
    spec = SampleSpec(prompt(9), 1, 12, 1.0, **narrow)  # pyright: ignore[reportArgumentType]
    assert same(engine.sample(spec, None).result().samples[0], greedy)


def test_a_sample_ends_where_the_context_ends(engine: Engine) -> None:
    spec = SampleSpec(prompt(engine.context - 4), 1, 100, 0.0)
    sample = engine.sample(spec, None).result().samples[0]
    assert (len(sample.tokens), sample.stop_reason) == (4, "length")
    full = SampleSpec(prompt(engine.context), 1, 1, 0.0, prompt_logprobs=True)
    scored = engine.sample(full, None).result().prompt_logprobs
    assert scored is not None
    assert np.isfinite(scored[1:]).all()


def test_a_cancelled_request_leaves_the_batch_and_others_go_on(engine: Engine) -> None:
    long = engine.sample(SampleSpec(prompt(5), 4, 1000, 1.0), None)
    other = engine.sample(SampleSpec(prompt(6), 1, 30, 0.0), None)
    assert long.cancel()
    assert len(other.result().samples[0].tokens) == 30


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (SampleSpec(prompt(1025)), "1025 tokens; this model takes 1 to 1024"),
        (SampleSpec(prompt(0)), "0 tokens"),
        (SampleSpec(np.array([5, 100_000], dtype=np.int32)), "outside 0.."),
        (SampleSpec(prompt(5), temperature=-1), "temperature is out of range: -1"),
        (SampleSpec(prompt(5), top_p=1.5), "top_p is out of range"),
        (SampleSpec(prompt(5), num_samples=0), "num_samples is out of range"),
    ],
)
def test_a_request_that_cannot_be_served_fails_alone(
    engine: Engine, spec: SampleSpec, message: str
) -> None:
    good = engine.sample(SampleSpec(prompt(5), 1, 3), None)
    with pytest.raises(EngineError, match=message):
        engine.sample(spec, None).result()
    assert len(good.result().samples) == 1


def test_sampling_from_a_folder_without_an_adapter_is_refused(
    engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match="no adapter in"):
        engine.sample(SampleSpec(prompt(5)), tmp_path).result()
