"""Forward and backward passes over training data, in micro-batches."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rsigym.local.tinker.attention import SequenceAttention
from rsigym.local.tinker.logprobs import score, train_score
from rsigym.local.tinker.lora import Trained
from rsigym.local.tinker.loss_inputs import loss_inputs
from rsigym.local.tinker.losses import TARGETS, Loss, find_loss
from rsigym.local.tinker.model import Decoder
from rsigym.local.tinker.optimizer import TrainingState
from rsigym.local.tinker.specs import Datum, LossConfig, PassResult

__all__ = ["micro_batches", "run_pass"]

MICRO_TOKENS = 512
"""Tokens of a micro-batch: enough to use the processor well, and the longest that sampling waits
for training (a second or two for a model of 135M parameters on two cores)."""

RECOMPUTE_TOKENS = 1024
"""A single longer sequence recomputes its activations in the backward pass: at 30 layers they
take about 1 MB a token."""


@dataclass(frozen=True)
class _Batch:
    """Data laid one after the other: tokens [tokens] and every loss input [tokens, K].

    K is the most targets that one of the data has at a position.
    """

    lengths: list[int]
    tokens: Tensor
    inputs: dict[str, Tensor]


def run_pass(
    decoder: Decoder,
    state: TrainingState,
    data: Sequence[Datum],
    loss_name: str,
    config: LossConfig,
    *,
    backward: bool,
) -> Generator[None, None, PassResult]:
    """Score the data and, with `backward`, add their gradient to the state's.

    Yields after each micro-batch so that other work can go between. The gradient is added at the
    end, all at once: a pass that fails or is abandoned leaves no part of it.

    Raises:
        EngineError: The loss is unknown, or its settings or the data do not fit it or the model.
    """
    loss = find_loss(loss_name)
    settings = loss.configure(config)
    inputs = loss_inputs(data, loss, decoder.architecture)
    trained = Trained(state.adapter)
    gradient = torch.zeros_like(state.adapter.vector)
    logprobs: dict[int, np.ndarray] = {}
    total = 0.0
    for members in micro_batches([len(datum.tokens) for datum in data]):
        batch = _gather([data[i] for i in members], [inputs[i] for i in members])
        scored, value = _micro_batch(decoder, trained, batch, loss, settings, backward=backward)
        if value.requires_grad:
            _add_gradient(gradient, value, trained)
        total += value.item()
        pieces = scored.detach().split(batch.lengths)
        for index, piece in zip(members, pieces, strict=True):
            logprobs[index] = _as_sent(piece.numpy(), data[index])
        yield
    if backward:
        state.accumulate(gradient)
    return PassResult([logprobs[i] for i in range(len(data))], {"loss:sum": total})


def micro_batches(lengths: Sequence[int], budget: int = MICRO_TOKENS) -> list[list[int]]:
    """Split data into batches of at most `budget` tokens, or of one datum; longest first.

    Data of like lengths go together, so that attention pads little.
    """
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if lengths[index] > room:
            batches.append([])
            room = budget
        batches[-1].append(index)
        room -= lengths[index]
    return batches


def _gather(data: Sequence[Datum], inputs: Sequence[dict[str, np.ndarray]]) -> _Batch:
    width = max(arrays[TARGETS].shape[1] for arrays in inputs)
    return _Batch(
        lengths=[len(datum.tokens) for datum in data],
        tokens=torch.from_numpy(np.concatenate([datum.tokens for datum in data])).long(),
        inputs={
            key: torch.from_numpy(
                np.concatenate([_widened(arrays[key], width) for arrays in inputs])
            )
            for key in inputs[0]
        },
    )


def _widened(array: np.ndarray, width: int) -> np.ndarray:
    """[T, K] → [T, width]. What is added has the weight 0."""
    return np.pad(array, ((0, 0), (0, width - array.shape[1])))


def _as_sent(scored: np.ndarray, datum: Datum) -> np.ndarray:
    """Log-probabilities [T, width] in the shape of the datum's targets."""
    targets = datum.loss_inputs[TARGETS]
    return scored[:, : targets.size // len(targets)].reshape(targets.shape)


def _micro_batch(
    decoder: Decoder,
    trained: Trained,
    batch: _Batch,
    loss: Loss,
    settings: Mapping[str, float],
    *,
    backward: bool,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities [tokens, K] of one micro-batch, and its loss."""
    learns = _learns(batch, loss)
    with torch.set_grad_enabled(backward and bool(learns.any())):
        hidden = decoder.hidden(
            batch.tokens,
            torch.cat([torch.arange(length) for length in batch.lengths]),
            SequenceAttention(batch.lengths),
            trained,
            recompute=torch.is_grad_enabled() and len(batch.tokens) > RECOMPUTE_TOKENS,
        )
        logprobs = _target_logprobs(decoder, trained, hidden, batch.inputs[TARGETS], learns)
        names = list(batch.inputs)
        columns = zip(*(batch.inputs[name].split(batch.lengths) for name in names), strict=True)
        losses = [
            loss.function(piece, dict(zip(names, column, strict=True)), settings)
            for piece, column in zip(logprobs.split(batch.lengths), columns, strict=True)
        ]
        return logprobs, torch.stack(losses).sum()


def _learns(batch: _Batch, loss: Loss) -> Tensor:
    """Which positions have a gradient, bool [tokens]."""
    if loss.gate is None:
        return torch.ones(len(batch.tokens), dtype=torch.bool)
    return (batch.inputs[loss.gate] != 0).any(dim=1)


def _target_logprobs(
    decoder: Decoder, trained: Trained, hidden: Tensor, targets: Tensor, learns: Tensor
) -> Tensor:
    """Every position is scored; only those that learn keep what a backward pass needs."""
    if not torch.is_grad_enabled():
        return score(decoder.unembed, trained, hidden, targets)
    learning, rest = learns.nonzero()[:, 0], (~learns).nonzero()[:, 0]
    out = torch.zeros(targets.shape)
    with torch.no_grad():
        out[rest] = score(decoder.unembed, trained, hidden[rest], targets[rest])
    learned = train_score(decoder.unembed, trained, hidden[learning], targets[learning])
    return out.index_copy(0, learning, learned)


def _add_gradient(gradient: Tensor, loss: Tensor, trained: Trained) -> None:
    leaves = trained.leaves()
    # Without a position that learns in the last layer's part, a leaf may be unused: zero then.
    grads = torch.autograd.grad(loss, leaves, materialize_grads=True)
    gradient += torch.cat([grad.flatten() for grad in grads])
