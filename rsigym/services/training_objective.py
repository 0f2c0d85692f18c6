"""What a step minimizes: a loss that the endpoint computes, or the agent's own.

The endpoint bills every pass through a batch, so each pass is charged as soon as it is done.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from rsigym.operations.training import TrainingConfig
from rsigym.platform.errors import BadCall
from rsigym.services.tinker_trainer import Scored, Trainer
from rsigym.services.training_example import Example
from rsigym.services.training_losses import LOSSES, BuiltInLoss

__all__ = [
    "BuiltIn",
    "Custom",
    "CustomLoss",
    "LossFailed",
    "Objective",
    "OpenLoss",
    "Outcome",
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step came to, under the weights before it.

    Attributes:
        logprobs: float32 [T - 1] for each of the batch.
        loss: The sum over all tokens; of a custom loss, its value.
        metrics: A custom loss's own.
    """

    logprobs: Sequence[np.ndarray]
    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])


class Objective(Protocol):
    """What a step minimizes.

    Attributes:
        passes: How often a step goes through its batch.
    """

    passes: int

    def step(
        self, trainer: Trainer, batch: Sequence[Example], rate: float, charge: Callable[[], None]
    ) -> Outcome:
        """One optimizer step at a learning rate; `charge` is called after every pass.

        Raises:
            Failure: Nothing was learned from the batch, or the endpoint was lost.
        """
        ...


class BuiltIn:
    """A loss that the endpoint computes."""

    def __init__(self, config: TrainingConfig):
        self._config = config
        self._loss: BuiltInLoss = LOSSES[config.loss_fn]
        self.passes = 2 if self._loss.scores_context else 1

    def step(
        self, trainer: Trainer, batch: Sequence[Example], rate: float, charge: Callable[[], None]
    ) -> Outcome:
        config = self._config
        inputs = [self._loss.inputs_of(example) for example in batch]
        if self._loss.scores_context:
            own = trainer.forward([example.tokens for example in batch])
            charge()
            for example, values, logprobs in zip(batch, inputs, own, strict=True):
                values["logprobs"] = np.where(example.trained, values["logprobs"], logprobs)
        scored = [Scored(e.tokens, values) for e, values in zip(batch, inputs, strict=True)]
        stepped = trainer.step(
            scored, config.loss_fn, config.loss_fn_config, config.adam_params, rate
        )
        charge()
        return Outcome(stepped.logprobs, stepped.loss)


type CustomLoss = Callable[
    [Sequence[np.ndarray], Sequence[Mapping[str, np.ndarray]], Sequence[np.ndarray]],
    tuple[float, list[np.ndarray], dict[str, float]],
]
"""(tokens [T], loss_fn_inputs [T - 1], logprobs [T - 1]) of each sequence → the loss, its
derivatives with respect to the logprobs, and metrics. Raises `BadCall` where the agent's code
fails, with the traceback in its details."""

type OpenLoss = Callable[[str], AbstractContextManager[CustomLoss]]
"""Starts the process of a loss from its source, and ends it with the block."""


class LossFailed(BadCall):
    """The agent's loss failed; the weights are as the step before left them."""


class Custom:
    """The agent's own loss: a pass for the logprobs, its gradients, and a pass backward.

    The second pass is of the linear loss with the same gradients, as in Tinker's own
    `forward_backward_custom`: cross-entropy with the weights -dL/dlogprob.
    """

    passes = 2

    def __init__(self, config: TrainingConfig, loss: CustomLoss):
        self._config = config
        self._loss = loss

    def step(
        self, trainer: Trainer, batch: Sequence[Example], rate: float, charge: Callable[[], None]
    ) -> Outcome:
        tokens = [example.tokens for example in batch]
        logprobs = trainer.forward(tokens)
        charge()
        try:
            loss, gradients, metrics = self._loss(tokens, [*map(_carried, batch)], logprobs)
        except BadCall as error:
            raise LossFailed(error.message, **error.details) from error
        scored = [
            Scored(each, {"weights": -gradient})
            for each, gradient in zip(tokens, gradients, strict=True)
        ]
        trainer.step(scored, "cross_entropy", {}, self._config.adam_params, rate)
        charge()
        return Outcome(logprobs, loss, metrics)


def _carried(example: Example) -> dict[str, np.ndarray]:
    """The inputs that the record brought."""
    inputs = {"weights": example.weights[1:]}
    for name in ("logprobs", "advantages"):
        array: np.ndarray | None = getattr(example, name)
        if array is not None and not np.isnan(array).all():
            inputs[name] = array[1:]
    return inputs
