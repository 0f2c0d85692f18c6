"""What a training run will do, settled before anything is paid: batches, learning rates, cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rsigym.operations.training import TrainingConfig
from rsigym.platform.errors import BadCall
from rsigym.services.renderer import Rendered, Renderer, check_parity
from rsigym.services.training_data import TrainingData

__all__ = ["Plan", "make_plan"]

_COMPARED = 8
"""Records whose training tokens are compared with what serving would make of them."""


@dataclass(frozen=True)
class Plan:
    """The steps of a run.

    Attributes:
        config: As it was submitted.
        data: The records as training sees them, in the order of the data.
        truncated: How many of them were cut to the maximum length.
    """

    config: TrainingConfig
    data: Sequence[Rendered]
    truncated: int

    @property
    def steps(self) -> int:
        """How many optimizer steps there are; the last batch of an epoch may be a part of one."""
        return len(self.step_tokens)

    @property
    def trained_tokens(self) -> int:
        """Tokens that are learned from in one epoch."""
        return sum(int(record.weights[1:].sum()) for record in self.data)

    @cached_property
    def _lengths(self) -> np.ndarray:
        """What each record costs in tokens: the last one is predicted, not read."""
        return np.array([len(record.tokens) - 1 for record in self.data], np.int64)

    @property
    def tokens(self) -> int:
        """Tokens of one epoch."""
        return int(self._lengths.sum())

    @cached_property
    def step_tokens(self) -> list[int]:
        """Tokens of every step, in order."""
        starts = np.arange(0, len(self.data), self.config.batch_size)
        per_epoch = [
            np.add.reduceat(self._lengths[self._order(epoch)], starts)
            for epoch in range(self.config.num_epochs)
        ]
        return np.concatenate(per_epoch)[: self.config.max_steps].tolist()

    def batch(self, step: int) -> list[Rendered]:
        """The records of a step, counted from 0."""
        size = self.config.batch_size
        epoch, place = divmod(step, math.ceil(len(self.data) / size))
        chosen = self._order(epoch)[place * size : (place + 1) * size]
        return [self.data[index] for index in chosen]

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0. Linear and cosine end just above 0."""
        full, done = self.config.adam_params.learning_rate, step / self.steps
        match self.config.lr_schedule:
            case "constant":
                return full
            case "linear":
                return full * (1 - done)
            case "cosine":
                return full * (1 + math.cos(math.pi * done)) / 2

    def _order(self, epoch: int) -> np.ndarray:
        """Each epoch has an order of its own, the same for the same seed."""
        random = np.random.default_rng((self.config.lora_config.seed, epoch))
        return random.permutation(len(self.data))


def make_plan(
    source: TrainingData, config: TrainingConfig, renderer: Renderer, context: int
) -> Plan:
    """Render and count every record.

    Args:
        source: The records.
        config: How it is trained.
        renderer: The base model's.
        context: The base model's most tokens; records are cut to it and to `max_length`.

    Raises:
        BadCall: A record that cannot be rendered or has nothing left to train on once it is cut,
            or fewer records than a batch.
    """
    length = min(config.max_length, context)
    data: list[Rendered] = []
    truncated = 0
    for record in source.records():
        try:
            rendered = renderer.render_training(record.messages, config.train_on_what)
            if len(data) < _COMPARED:
                check_parity(renderer, record.messages, config.train_on_what)
            truncated += len(rendered.tokens) > length
            data.append(_cut(rendered, length))
        except BadCall as error:
            raise BadCall(
                f"{source.name}, {record.where} {record.number}: {error.message}",
                file=source.name,
                **{record.where: record.number},
            ) from error
    if len(data) < config.batch_size:
        raise BadCall(
            f"{source.name} has {len(data)} records, fewer than a batch of {config.batch_size}: "
            "add records, or set batch_size lower",
            records=len(data),
            batch_size=config.batch_size,
        )
    return Plan(config, data, truncated)


def _cut(rendered: Rendered, length: int) -> Rendered:
    cut = rendered.cut(length)
    if not cut.weights[1:].any():
        raise BadCall(
            f"none of the first {length} tokens of {len(rendered.tokens)} is to be trained: "
            "shorten what comes before the reply, or raise max_length"
        )
    return cut
