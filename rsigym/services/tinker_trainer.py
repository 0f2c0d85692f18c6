"""Training one adapter on a Tinker endpoint."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rsigym.operations.training import AdamParams, LossName
from rsigym.services.tinker_link import Link

if TYPE_CHECKING:
    import tinker

__all__ = ["Scored", "Stepped", "Trainer"]

_REQUEST_TOKENS = 2**16
"""Tokens of one request, unless a single datum has more. Larger batches accumulate the gradients
of several requests: what is on the wire and in the endpoint's memory at once stays bounded."""

_UNWEIGHTED = "cross_entropy"
"""The loss that scores any datum; a pass forward leaves no gradient of it."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One sequence with what a loss reads of it.

    Attributes:
        tokens: int32 [T]; each but the first is predicted from those before it.
        inputs: float32 [T - 1] each, by Tinker's names.
    """

    tokens: np.ndarray
    inputs: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Stepped:
    """What one optimizer step answers, under the weights before it.

    Attributes:
        logprobs: float32 [T - 1] for each of the batch: of each token but the first.
        loss: The sum over all tokens.
    """

    logprobs: list[np.ndarray]
    loss: float


class Trainer:
    """An adapter in training. For one thread."""

    def __init__(self, client: "tinker.TrainingClient", link: Link):
        self._client = client
        self._link = link

    def forward(self, sequences: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The logprob of each token but the first, float32 [T - 1] for each of the sequences."""
        batch = [Scored(tokens, {"weights": np.zeros(len(tokens) - 1)}) for tokens in sequences]
        passes = [
            self._client.forward([_datum(one) for one in part], _UNWEIGHTED)
            for part in _parts(batch)
        ]
        outputs = [each for one in passes for each in self._link.wait(one).loss_fn_outputs]
        return [output["logprobs"].to_numpy() for output in outputs]

    def step(
        self,
        batch: Sequence[Scored],
        loss: LossName,
        config: Mapping[str, float],
        adam: AdamParams,
        learning_rate: float,
    ) -> Stepped:
        """One optimizer step on the whole of `batch`."""
        from tinker.types import AdamParams as Adam

        parameters = adam.model_dump() | {"learning_rate": learning_rate}
        # All are on their way before any is waited for: hosted steps share one clock cycle.
        passes = [
            self._client.forward_backward([_datum(one) for one in part], loss, dict(config))
            for part in _parts(batch)
        ]
        stepped = self._client.optim_step(Adam(**parameters))
        answers = [self._link.wait(each) for each in passes]
        self._link.wait(stepped)
        outputs = [output for answer in answers for output in answer.loss_fn_outputs]
        return Stepped(
            [output["logprobs"].to_numpy() for output in outputs],
            sum(answer.metrics["loss:sum"] for answer in answers),
        )

    def save(self, name: str) -> tuple[str, str]:
        """The paths of a sampler checkpoint and a state checkpoint of the weights as they are."""
        sampler = self._client.save_weights_for_sampler(name)
        state = self._client.save_state(name)
        return self._link.wait(sampler).path, self._link.wait(state).path


def _parts(batch: Sequence[Scored]) -> Iterator[Sequence[Scored]]:
    """The batch in its order, in requests of a bounded size."""
    start = tokens = 0
    for index, one in enumerate(batch):
        if index > start and tokens + len(one.tokens) > _REQUEST_TOKENS:
            yield batch[start:index]
            start, tokens = index, 0
        tokens += len(one.tokens)
    yield batch[start:]


def _datum(scored: Scored) -> "tinker.Datum":
    from tinker.types import Datum, ModelInput, TensorData

    inputs = {name: value.astype(np.float32) for name, value in scored.inputs.items()}
    arrays = {"target_tokens": scored.tokens[1:].astype(np.int64), **inputs}
    return Datum(
        ModelInput.from_ints(scored.tokens[:-1].tolist()),
        {name: TensorData.from_numpy(array) for name, array in arrays.items()},
    )
