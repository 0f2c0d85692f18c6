"""The state of sampling requests: what was asked, what is being read, what is being written."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
from tokenizers import Tokenizer
from torch import Tensor

from rsigym.local.tinker.architecture import Architecture
from rsigym.local.tinker.cache import PromptCache
from rsigym.local.tinker.lora import Adapter
from rsigym.local.tinker.prefixes import BLOCK, Key, keys_of
from rsigym.local.tinker.promise import resolve
from rsigym.local.tinker.specs import EngineError, Sample, SampleResult, SampleSpec
from rsigym.local.tinker.stopping import StopStrings

__all__ = ["Reading", "Request", "Row", "checked"]


@dataclass(eq=False)
class Request:
    """One sampling request and the parts of its answer that are there."""

    spec: SampleSpec
    adapter: Adapter | None
    future: Future[SampleResult]
    limit: int
    """Tokens a sample can have: `max_tokens`, or what the context leaves."""
    cached_tokens: int = 0
    """Prompt tokens that were not read for it, because they had been read before."""
    samples: dict[int, Sample] = field(default_factory=dict[int, Sample])
    prompt_logprobs: np.ndarray = field(init=False)
    topk_ids: np.ndarray = field(init=False)
    topk_logprobs: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        length, k = len(self.spec.prompt), self.spec.topk_prompt_logprobs
        self.prompt_logprobs = np.full(length, np.nan, dtype=np.float32)
        self.topk_ids = np.full((length, k), -1, dtype=np.int32)
        self.topk_logprobs = np.full((length, k), np.nan, dtype=np.float32)

    @property
    def scores_prompt(self) -> bool:
        return self.spec.prompt_logprobs or self.spec.topk_prompt_logprobs > 0

    def add(self, index: int, sample: Sample) -> None:
        """Take a finished sample; the last one answers the request."""
        self.samples[index] = sample
        spec = self.spec
        if len(self.samples) == spec.num_samples:
            answer = SampleResult(
                samples=[self.samples[i] for i in range(spec.num_samples)],
                prompt_logprobs=self.prompt_logprobs if spec.prompt_logprobs else None,
                topk_prompt_logprobs=(self.topk_ids, self.topk_logprobs)
                if spec.topk_prompt_logprobs
                else None,
                cached_tokens=self.cached_tokens,
            )
            resolve(self.future, answer)


class Row:
    """One sample being written."""

    def __init__(self, request: Request, index: int, tokenizer: Tokenizer | None):
        spec = request.spec
        self.request = request
        self.index = index
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        # Samples of one seeded request differ from each other, and are the same every time.
        seed = None if spec.seed is None else (spec.seed & (2**64 - 1), index)
        self.generator = np.random.default_rng(seed)
        self._stops = StopStrings(tokenizer, spec.stop_strings) if tokenizer else None

    @property
    def length(self) -> int:
        """Tokens in the cache: all but the last, which is still to be read."""
        return len(self.request.spec.prompt) + len(self.tokens) - 1

    def finish_with(self, token: int, logprob: float) -> bool:
        """Append a token; if it is the last, hand the sample in and return True."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        stopped = token in self.request.spec.stop_ids or (
            self._stops is not None and self._stops.completes(token)
        )
        if not stopped and len(self.tokens) < self.request.limit:
            return False
        sample = Sample(
            np.array(self.tokens, dtype=np.int32),
            np.array(self.logprobs, dtype=np.float32),
            "stop" if stopped else "length",
        )
        self.request.add(self.index, sample)
        return True


class Reading:
    """A prompt being read, chunk by chunk, for the rows that wait for its end.

    A row that was sent back is read again with what it has written as part of the prompt.
    """

    def __init__(self, rows: list[Row]):
        self.request = rows[0].request
        self.rows = rows
        self.tokens: list[int] = [*self.request.spec.prompt.tolist(), *rows[0].tokens]
        self.scored = self.request.scores_prompt and not rows[0].tokens
        self.done = 0
        self.keys = keys_of(self.tokens, self.request.adapter)
        self.cache = PromptCache(len(self.tokens))
        self.logits: Tensor | None = None
        """Of the token that comes next, [vocab], once the prompt has been read."""

    @property
    def known_keys(self) -> list[Key]:
        """Blocks that need not be read if they are known.

        Not all: the last token's logits are wanted, and of a prompt that is scored every token's.
        """
        return [] if self.scored else self.keys_until(len(self.tokens) - 1)

    def keys_until(self, end: int) -> list[Key]:
        """The whole blocks of the first `end` tokens."""
        return self.keys[: end // BLOCK]

    def resume(self, blocks: Sequence[Tensor]) -> None:
        """Begin after the blocks, which another prompt has read."""
        self.cache.resume(blocks)
        self.done = len(blocks) * BLOCK
        # A row that was sent back is read again for the engine's sake, not for its asker's.
        if not self.rows[0].tokens:
            self.request.cached_tokens = self.done


def checked(spec: SampleSpec, shape: Architecture) -> int:
    """Check a request and return how many tokens a sample of it can have.

    Raises:
        EngineError: The prompt does not fit the model or a parameter is out of its range.
    """
    prompt = spec.prompt
    if prompt.ndim != 1 or not 1 <= len(prompt) <= shape.context:
        raise EngineError(
            f"the prompt has {prompt.size} tokens; this model takes 1 to {shape.context}: "
            "shorten it"
        )
    if prompt.min() < 0 or prompt.max() >= shape.vocab:
        raise EngineError(f"the prompt has a token id outside 0..{shape.vocab - 1}")
    ranges = {
        "num_samples": spec.num_samples >= 1,
        "max_tokens": spec.max_tokens >= 1,
        "temperature": 0 <= spec.temperature < float("inf"),
        "top_p": 0 <= spec.top_p <= 1,
        "top_k": spec.top_k >= -1,
        "topk_prompt_logprobs": 0 <= spec.topk_prompt_logprobs <= shape.vocab,
    }
    for name, valid in ranges.items():
        if not valid:
            raise EngineError(f"{name} is out of range: {getattr(spec, name)}")
    return min(spec.max_tokens, max(shape.context - len(prompt), 1))
