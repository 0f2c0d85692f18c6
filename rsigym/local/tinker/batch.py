"""One sampling step's flat batch: the next token of every row, and chunks of prompts."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rsigym.local.tinker.cache import Chunk, DecodeCache, StepAttention
from rsigym.local.tinker.lora import Adapter, Base, Delta, Mixed
from rsigym.local.tinker.rows import Reading, Row

__all__ = ["Batch", "delta_of"]

type Segment = tuple[int, int, Adapter]


def delta_of(segments: Sequence[Segment]) -> Delta:
    """The adapters of the runs (first token, end, adapter) of a flat batch."""
    return Mixed(segments) if segments else Base()


class Batch:
    """A flat batch in which the tokens of one adapter stand together.

    Args:
        rows: By slot of the cache.
        reads: Readings, and how many tokens each reads now.
        cache: The rows' keys and values, with room for a token more.

    Attributes:
        chunks: The readings with their chunks.
        takers: Whose next token the logits are for, in the order of their places.
    """

    def __init__(
        self, rows: Sequence[Row], reads: Sequence[tuple[Reading, int]], cache: DecodeCache
    ):
        self.chunks: list[tuple[Reading, Chunk]] = []
        self.takers: list[Row | Reading] = []
        self._tokens: list[Tensor] = []
        self._positions: list[Tensor] = []
        self._segments: list[Segment] = []
        self._places: list[int] = []
        self._size = 0
        slots = dict.fromkeys(range(len(rows)), 0)
        owners = (*rows, *(reading for reading, _ in reads))
        for adapter in dict.fromkeys(owner.request.adapter for owner in owners):
            first = self._size
            for slot, row in enumerate(rows):
                if row.request.adapter is adapter:
                    slots[slot] = self._size
                    self._add_row(row)
            for reading, count in reads:
                if reading.request.adapter is adapter:
                    self._add_chunk(reading, count)
            if adapter is not None:
                self._segments.append((first, self._size, adapter))
        self.attention = StepAttention(
            cache,
            places=list(slots.values()),
            lengths=torch.tensor([row.length for row in rows], dtype=torch.int64),
            chunks=[chunk for _, chunk in self.chunks],
        )

    def _add_row(self, row: Row) -> None:
        self._add(row.tokens[-1:], [row.length])
        self._take(row)

    def _add_chunk(self, reading: Reading, count: int) -> None:
        start, end = reading.done, reading.done + count
        self.chunks.append((reading, Chunk(reading.cache, self._size, start, end)))
        self._add(reading.tokens[start:end], range(start, end))
        if end == len(reading.tokens):
            self._take(reading)

    def _add(self, tokens: Sequence[int], positions: Sequence[int]) -> None:
        self._tokens.append(torch.tensor(tokens))
        self._positions.append(torch.tensor(positions))
        self._size += len(tokens)

    def _take(self, owner: Row | Reading) -> None:
        """The token added last is followed by one of `owner`'s."""
        self.takers.append(owner)
        self._places.append(self._size - 1)

    @property
    def tokens(self) -> Tensor:
        """int64 [tokens]."""
        return torch.cat(self._tokens)

    @property
    def positions(self) -> Tensor:
        """int64 [tokens], places in their sequences."""
        return torch.cat(self._positions)

    @property
    def delta(self) -> Delta:
        """The adapters of all tokens."""
        return delta_of(self._segments)

    def taken(self) -> tuple[Tensor, Delta]:
        """The takers' places, int64 [takers], and the adapters of just these tokens."""
        places = torch.tensor(self._places)
        segments: list[Segment] = []
        for start, end, adapter in self._segments:
            first, last = torch.searchsorted(places, torch.tensor([start, end])).tolist()
            if first < last:
                segments.append((first, last, adapter))
        return places, delta_of(segments)
