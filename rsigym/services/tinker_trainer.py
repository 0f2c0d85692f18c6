"""Training one adapter on a Tinker endpoint."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rsigym.operations.training import AdamParams
from rsigym.services.renderer import Rendered
from rsigym.services.tinker_link import Link

if TYPE_CHECKING:
    import tinker

__all__ = ["Trainer"]


class Trainer:
    """An adapter in training. For one thread."""

    def __init__(self, client: "tinker.TrainingClient", link: Link):
        self._client = client
        self._link = link

    def step(
        self, batch: Sequence[Rendered], adam: AdamParams, learning_rate: float
    ) -> list[np.ndarray]:
        """One optimizer step on `batch`; the sum of the trained tokens' cross-entropy is the loss.

        Answers the logprob of each token but the first under the weights before the step:
        float32 [T - 1] for each of the batch.
        """
        from tinker.types import AdamParams as Adam

        parameters = adam.model_dump() | {"learning_rate": learning_rate}
        # Both are on their way before either is waited for: hosted steps share one clock cycle.
        passed = self._client.forward_backward([_datum(one) for one in batch], "cross_entropy")
        stepped = self._client.optim_step(Adam(**parameters))
        outputs = self._link.wait(passed).loss_fn_outputs
        self._link.wait(stepped)
        return [output["logprobs"].to_numpy() for output in outputs]

    def save(self, name: str) -> tuple[str, str]:
        """The paths of a sampler checkpoint and a state checkpoint of the weights as they are."""
        sampler = self._client.save_weights_for_sampler(name)
        state = self._client.save_state(name)
        return self._link.wait(sampler).path, self._link.wait(state).path


def _datum(rendered: Rendered) -> "tinker.Datum":
    from tinker.types import Datum, ModelInput, TensorData

    targets, weights = rendered.tokens[1:].astype(np.int64), rendered.weights[1:]
    return Datum(
        ModelInput.from_ints(rendered.tokens[:-1].tolist()),
        {
            "target_tokens": TensorData.from_numpy(targets),
            "weights": TensorData.from_numpy(weights),
        },
    )
