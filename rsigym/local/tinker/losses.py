"""Loss functions by the name Tinker gives them. A new one is one function and one entry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from rsigym.local.tinker.specs import Datum, EngineError

__all__ = ["LOSSES", "Loss", "find_loss"]

TARGETS = "target_tokens"


@dataclass(frozen=True)
class Loss:
    """A loss over the target log-probabilities of one sequence.

    Attributes:
        function: (logprobs [T], inputs, config) → scalar; the loss of a batch is the sum over its
            data.
        gradient_input: The per-token input by which every gradient is multiplied: where it is 0
            the position is scored but gets no backward pass.
        defaults: Values of inputs that may be left out; others are required.
        inputs: Every per-token input besides `target_tokens`.
    """

    function: Callable[[Tensor, Mapping[str, Tensor], Mapping[str, float]], Tensor]
    gradient_input: str
    inputs: tuple[str, ...]
    defaults: Mapping[str, float]

    def arrays(self, datum: Datum, name: str) -> dict[str, np.ndarray]:
        """The datum's float32 [T] inputs, checked and filled in.

        Raises:
            EngineError: One is missing, unknown, or not as long as the tokens.
        """
        length = len(datum.tokens)
        given = dict(datum.loss_inputs)
        unknown = sorted(given.keys() - {TARGETS, *self.inputs})
        if unknown:
            raise EngineError(
                f"loss {name!r} has no input {unknown[0]!r}; it takes "
                f"{', '.join((TARGETS, *self.inputs))}"
            )
        arrays: dict[str, np.ndarray] = {}
        for key in (TARGETS, *self.inputs):
            if key not in given and key in self.defaults:
                given[key] = np.full(length, self.defaults[key], dtype=np.float32)
            if key not in given:
                raise EngineError(f"loss {name!r} needs {key!r} in every datum's loss_fn_inputs")
            array = np.asarray(given[key])
            if array.shape != (length,):
                raise EngineError(
                    f"{key!r} has shape {list(array.shape)} where the datum has {length} tokens: "
                    "give one value for each token of model_input"
                )
            arrays[key] = array.astype(np.int64 if key == TARGETS else np.float32)
        return arrays


def cross_entropy(
    logprobs: Tensor, inputs: Mapping[str, Tensor], config: Mapping[str, float]
) -> Tensor:
    """Minus the weighted sum of log-probabilities; weights may have either sign."""
    del config
    return -(logprobs * inputs["weights"]).sum()


LOSSES = {"cross_entropy": Loss(cross_entropy, "weights", ("weights",), {"weights": 1.0})}


def find_loss(name: str) -> Loss:
    """The loss of that name.

    Raises:
        EngineError: There is none; the message names those there are.
    """
    if name not in LOSSES:
        raise EngineError(f"unknown loss {name!r}; the local Tinker server has {sorted(LOSSES)}")
    return LOSSES[name]
