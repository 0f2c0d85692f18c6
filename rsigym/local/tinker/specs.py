"""What goes into the engine and what comes out: plain numpy and Python, no torch, no HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

__all__ = [
    "AdamSpec",
    "Datum",
    "EngineError",
    "LoraSpec",
    "LossConfig",
    "PassResult",
    "Sample",
    "SampleResult",
    "SampleSpec",
]


type LossConfig = Mapping[str, float | str]
"""A loss's settings as the SDK sends them. No loss here takes a text."""


class EngineError(RuntimeError):
    """A request the engine cannot serve. The message says what to do; other requests go on."""


@dataclass(frozen=True)
class LoraSpec:
    """Which linear layers get a low-rank adapter, and the seed of their first weights."""

    rank: int
    seed: int
    train_mlp: bool = True
    train_attn: bool = True
    train_unembed: bool = True


@dataclass(frozen=True)
class AdamSpec:
    """Adam with decoupled weight decay; the defaults are those of Tinker's `AdamParams`."""

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0
    """Largest global gradient norm; 0 does not clip."""


@dataclass(frozen=True)
class Datum:
    """One training sequence.

    Attributes:
        tokens: int32 [T], what the model reads.
        loss_inputs: Arrays of [T] that the loss asks for, such as `target_tokens` and `weights`;
            for `cross_entropy` they may be [T, K], with K targets at each position.
    """

    tokens: np.ndarray
    loss_inputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class PassResult:
    """What a forward (and backward) pass gave.

    Attributes:
        logprobs: For each datum the log-probabilities of its targets, float32, of their shape.
        metrics: `loss:sum`, the loss summed over all tokens of all data.
    """

    logprobs: list[np.ndarray]
    metrics: dict[str, float]


@dataclass(frozen=True)
class SampleSpec:
    """One sampling request.

    Attributes:
        prompt: int32 [P], at least one token.
        num_samples: Independent continuations of the prompt.
        max_tokens: Longest continuation; less where the model's context ends first.
        temperature: 0 takes the most likely token.
        top_p: Samples from the smallest set of tokens with at least this probability.
        top_k: Samples from the k most likely tokens; -1 from all.
        seed: The same seed gives the same samples whatever else runs; None is a fresh one.
        stop_ids: Token ids that end a sample. The token is part of the sample.
        stop_strings: Texts that end a sample. The tokens that spell them are part of it.
        prompt_logprobs: Whether to score the prompt.
        topk_prompt_logprobs: How many likeliest tokens to give at each prompt position.
    """

    prompt: np.ndarray
    num_samples: int = 1
    max_tokens: int = 128
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int | None = None
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    prompt_logprobs: bool = False
    topk_prompt_logprobs: int = 0


@dataclass(frozen=True)
class Sample:
    """One continuation.

    Attributes:
        tokens: int32 [N], the stop token included.
        logprobs: float32 [N], under the model itself: before temperature, top_p and top_k, which
            is what hosted Tinker returns.
        stop_reason: "stop" when a stop token or string ended it, "length" otherwise.
    """

    tokens: np.ndarray
    logprobs: np.ndarray
    stop_reason: Literal["stop", "length"]


@dataclass(frozen=True)
class SampleResult:
    """The answer to a `SampleSpec`.

    Attributes:
        samples: One for each of `num_samples`.
        prompt_logprobs: float32 [P] when asked for; the first is NaN, as nothing precedes it.
        topk_prompt_logprobs: When asked for, token ids int32 [P, k] and logprobs float32 [P, k],
            likeliest first; the first row is -1 and NaN.
        cached_tokens: Leading prompt tokens that were not read, because another prompt that began
            with them had been.
    """

    samples: list[Sample] = field(default_factory=list[Sample])
    prompt_logprobs: np.ndarray | None = None
    topk_prompt_logprobs: tuple[np.ndarray, np.ndarray] | None = None
    cached_tokens: int = 0
