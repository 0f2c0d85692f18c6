"""Loss functions by the name Tinker gives them. A new one is one function and one entry.

The formulas are those of Tinker's documentation (tinker-docs.thinkingmachines.ai/tinker/losses and
its pages cross-entropy, importance-sampling, ppo, cispo, dro and gspo; the default thresholds are
those of its tutorial 202). With p the policy in training, q the one that sampled and A the
advantages, each is a sum over tokens, never a mean.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rsigym.local.tinker.specs import EngineError, LossConfig

__all__ = ["LOSSES", "TARGETS", "Loss", "find_loss"]

TARGETS = "target_tokens"

type Tensors = Mapping[str, Tensor]
type Settings = Mapping[str, float]

# Ratios of probabilities, not distances from 1.
_LOW, _HIGH = "clip_low_threshold", "clip_high_threshold"


@dataclass(frozen=True)
class Loss:
    """A loss over the target log-probabilities of one sequence; a batch's is the sum of its data's.

    Attributes:
        name: What Tinker calls it.
        function: (logprobs [T, K], inputs [T, K], settings) → scalar. K is the number of targets
            at a position.
        inputs: Every input besides `target_tokens`.
        gate: The input by which every gradient is multiplied: where it is 0 the position is
            scored but gets no backward pass. None where every position learns.
        defaults: Values of inputs that may be left out; others are required.
        settings: The keys of loss_fn_config and their defaults; None must be given, because
            Tinker documents no default.
        many_targets: Whether K may be other than 1.
        mean_over: The input whose nonzero positions are averaged over, so that one is needed.
    """

    name: str
    function: Callable[[Tensor, Tensors, Settings], Tensor]
    inputs: tuple[str, ...] = ("logprobs", "advantages")
    gate: str | None = "advantages"
    defaults: Mapping[str, float] = field(default_factory=dict[str, float])
    settings: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    many_targets: bool = False
    mean_over: str | None = None

    def configure(self, config: LossConfig) -> dict[str, float]:
        """The settings, with what `config` says and the defaults of the rest.

        Raises:
            EngineError: A key is unknown or missing, or a value makes no sense.
        """
        known = ", ".join(self.settings) or "none"
        values = dict(self.settings)
        for key, value in config.items():
            if key not in values:
                raise EngineError(f"loss {self.name!r} has no setting {key!r}; it has: {known}")
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise EngineError(f"loss_fn_config[{key!r}] must be a number, not {value!r}")
            values[key] = float(value)
        given = {key: value for key, value in values.items() if value is not None}
        if missing := sorted(values.keys() - given.keys()):
            raise EngineError(f"loss {self.name!r} needs {missing[0]!r} in loss_fn_config")
        if _LOW in given and given[_LOW] > given[_HIGH]:
            raise EngineError(f"{_LOW} {given[_LOW]:g} is above {_HIGH} {given[_HIGH]:g}")
        return given


def _cross_entropy(logprobs: Tensor, inputs: Tensors, _settings: Settings) -> Tensor:
    """-Σ w log p; weights may have either sign."""
    return -(logprobs * inputs["weights"]).sum()


def _importance_sampling(logprobs: Tensor, inputs: Tensors, _settings: Settings) -> Tensor:
    """-Σ (p/q) A."""
    return -(_ratio(logprobs, inputs) * inputs["advantages"]).sum()


def _ppo(logprobs: Tensor, inputs: Tensors, settings: Settings) -> Tensor:
    """-Σ min(r A, clip(r) A) with r = p/q."""
    return _clipped(_ratio(logprobs, inputs), inputs["advantages"], settings)


def _gspo(logprobs: Tensor, inputs: Tensors, settings: Settings) -> Tensor:
    """PPO's with one ratio for the sequence: the geometric mean of p/q over the marked tokens.

    Each token carries its value and the gradient of its own log-probability (GSPO-token).
    """
    fixed = logprobs.detach()
    marked = inputs["sequence_ratio_mask"] != 0
    mean = (fixed - inputs["logprobs"])[marked].mean()
    return _clipped(torch.exp(mean + logprobs - fixed), inputs["advantages"], settings)


def _cispo(logprobs: Tensor, inputs: Tensors, settings: Settings) -> Tensor:
    """-Σ clip(p/q) A log p, the clipped ratio taken as a constant."""
    coefficient = _ratio(logprobs.detach(), inputs).clamp(settings[_LOW], settings[_HIGH])
    return -(coefficient * inputs["advantages"] * logprobs).sum()


def _dro(logprobs: Tensor, inputs: Tensors, settings: Settings) -> Tensor:
    """-Σ (A log p - β/2 (log p/q)²); the penalty holds where the advantage is 0 too."""
    penalty = 0.5 * settings["beta"] * (logprobs - inputs["logprobs"]).square()
    return -(logprobs * inputs["advantages"] - penalty).sum()


def _ratio(logprobs: Tensor, inputs: Tensors) -> Tensor:
    return torch.exp(logprobs - inputs["logprobs"])


def _clipped(ratio: Tensor, advantages: Tensor, settings: Settings) -> Tensor:
    clipped = ratio.clamp(settings[_LOW], settings[_HIGH])
    return -torch.minimum(ratio * advantages, clipped * advantages).sum()


LOSSES = {
    loss.name: loss
    for loss in (
        Loss(
            "cross_entropy",
            _cross_entropy,
            inputs=("weights",),
            gate="weights",
            defaults={"weights": 1.0},
            many_targets=True,
        ),
        Loss("importance_sampling", _importance_sampling),
        Loss("ppo", _ppo, settings={_LOW: 0.8, _HIGH: 1.2}),
        Loss("cispo", _cispo, settings={_LOW: 0.0, _HIGH: 4.0}),
        Loss("dro", _dro, gate=None, settings={"beta": None}),
        Loss(
            "gspo",
            _gspo,
            inputs=("logprobs", "advantages", "sequence_ratio_mask"),
            settings={_LOW: None, _HIGH: None},
            mean_over="sequence_ratio_mask",
        ),
    )
}

# Named by the SDK, and why they are not here.
_NOT_HERE = {
    "custom": "the SDK computes custom losses on the client: call forward_backward_custom",
    "stable_reinforce": "it needs what only hosted Tinker records while it samples",
}


def find_loss(name: str) -> Loss:
    """The loss of that name.

    Raises:
        EngineError: There is none; the message names those there are.
    """
    if name not in LOSSES:
        why = f" ({_NOT_HERE[name]})" if name in _NOT_HERE else ""
        there = ", ".join(LOSSES)
        raise EngineError(f"no loss {name!r} on the local Tinker server{why}; it has {there}")
    return LOSSES[name]
