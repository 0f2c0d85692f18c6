"""Continuous batching: requests join and leave the running batch token by token.

A step gives one token to every running row and reads a bounded stretch of waiting prompts, all in
one pass through the model, whatever adapter each row uses. A prompt is read once for all its
samples, and what prompts have in common once for all of them. Keys and values have a fixed share of
memory: when the running rows outgrow it, the one that has written least goes back to the head of
the queue with what it has, to be read again later.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from rsigym.local.tinker.batch import Batch
from rsigym.local.tinker.cache import DecodeCache, bytes_per_token
from rsigym.local.tinker.choice import choose
from rsigym.local.tinker.lora import Adapter
from rsigym.local.tinker.model import Decoder
from rsigym.local.tinker.prefixes import BLOCK, PrefixCache
from rsigym.local.tinker.promise import fail
from rsigym.local.tinker.prompt_scores import score_chunk
from rsigym.local.tinker.prompts import Prompts
from rsigym.local.tinker.room import Room
from rsigym.local.tinker.rows import Reading, Request, Row, checked
from rsigym.local.tinker.specs import SampleResult, SampleSpec

__all__ = ["Sampler"]

CACHE_BYTES = 2**30
"""Keys and values of the running rows: 23,000 tokens of SmolLM2-135M in float32."""

PREFIX_BYTES = CACHE_BYTES // 2
"""Keys and values of what prompts began with: 11,000 tokens of SmolLM2-135M in float32."""


class Sampler:
    """The running batch of one model.

    Args:
        decoder: The model.
        folder: Its folder, for the tokenizer that stop strings need.
        cache_bytes: Memory for the keys and values of the running rows.
        prefix_bytes: Memory for those of prompts that have been read, for others that begin alike.
    """

    def __init__(
        self,
        decoder: Decoder,
        folder: Path,
        *,
        cache_bytes: int = CACHE_BYTES,
        prefix_bytes: int = PREFIX_BYTES,
    ):
        self.decoder = decoder
        self.folder = folder
        shape = decoder.architecture
        token_bytes = bytes_per_token(shape, decoder.dtype)
        self.room = Room(cache_bytes // token_bytes)
        self.cache = DecodeCache(shape, decoder.dtype)
        self.prefixes = PrefixCache(prefix_bytes // (BLOCK * token_bytes))
        self.prompts = Prompts(self.room, self.prefixes)
        self.rows: list[Row] = []

    @property
    def busy(self) -> bool:
        """Whether a step has something to do."""
        return bool(self.prompts or self.rows)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Read when the first stop string comes."""
        return Tokenizer.from_file(str(self.folder / "tokenizer.json"))

    def submit(
        self, spec: SampleSpec, adapter: Adapter | None, future: Future[SampleResult]
    ) -> None:
        """Queue a request; `future` gets its answer.

        Raises:
            EngineError: The request cannot be served.
        """
        limit = checked(spec, self.decoder.architecture)
        request = Request(spec, adapter, future, limit)
        tokenizer = self.tokenizer if spec.stop_strings else None
        rows = [Row(request, index, tokenizer) for index in range(spec.num_samples)]
        self.prompts.add(Reading(rows))

    def fail_all(self, error: BaseException) -> None:
        """Give every request the error and start afresh."""
        for request in {row.request for row in self._all_rows()}:
            fail(request.future, error)
        self.prompts.clear()
        self.prefixes.clear()
        self.rows.clear()
        self.cache.clear()

    @torch.inference_mode()
    def step(self) -> None:
        """One pass through the model."""
        self._drop_cancelled()
        self._send_back()
        reads = self.prompts.plan(len(self.rows), self._longest())
        if self.rows or reads:
            self.cache.reserve(len(self.rows), self._longest())
            self._run(Batch(self.rows, reads, self.cache))
        self._seat()
        if not self.rows:
            self.cache.clear()

    def _all_rows(self) -> list[Row]:
        return [*self.rows, *(row for reading in self.prompts for row in reading.rows)]

    def _drop_cancelled(self) -> None:
        if any(row.request.future.cancelled() for row in self._all_rows()):
            self.prompts.drop_cancelled()
            self._leave([row for row in self.rows if row.request.future.cancelled()])

    def _leave(self, gone: Sequence[Row]) -> None:
        """Free the rows' slots; the last row moves into each."""
        for slot in sorted((self.rows.index(row) for row in gone), reverse=True):
            last = len(self.rows) - 1
            if slot < last:
                self.cache.move(last, slot, self.rows[last].length)
                self.rows[slot] = self.rows[last]
            self.rows.pop()

    def _longest(self) -> int:
        """Tokens of the longest row once it has its next one."""
        return max((row.length + 1 for row in self.rows), default=0)

    def _send_back(self) -> None:
        while not self.room.fits(len(self.rows), self._longest()):
            cheapest = min(self.rows, key=lambda row: len(row.tokens))
            self.prompts.send_back(cheapest)
            self._leave([cheapest])

    def _run(self, batch: Batch) -> None:
        hidden = self.decoder.hidden(batch.tokens, batch.positions, batch.attention, batch.delta)
        for reading, chunk in batch.chunks:
            if reading.scored:
                score_chunk(reading, chunk, hidden[chunk.offset :], self.decoder.unembed)
            self.prompts.has_read(reading, chunk.end)
        if not batch.takers:
            return
        places, delta = batch.taken()
        logits = delta.linear(self.decoder.unembed, hidden[places]).float()
        rows = {i: taker for i, taker in enumerate(batch.takers) if isinstance(taker, Row)}
        for index, taker in enumerate(batch.takers):
            if isinstance(taker, Reading):
                taker.logits = logits[index].clone()
        of_rows = logits if len(rows) == len(logits) else logits[list(rows)]
        self._leave(self._write(list(rows.values()), of_rows))

    def _write(self, rows: Sequence[Row], logits: Tensor) -> list[Row]:
        """Give each row its next token; return those that are finished."""
        if not rows:
            return []
        specs = [row.request.spec for row in rows]
        tokens, logprobs = choose(logits, specs, [row.generator for row in rows])
        return [
            row
            for row, token, logprob in zip(rows, tokens, logprobs, strict=True)
            if row.finish_with(token, logprob)
        ]

    def _seat(self) -> None:
        """Give the rows of prompts that have been read their first token, and a slot."""
        joining = self.prompts.ready(len(self.rows), self._longest())
        if not joining:
            return
        rows = [row for row, _, _ in joining]
        finished = self._write(rows, torch.stack([logits for _, _, logits in joining]))
        staying = [(row, cache) for row, cache, _ in joining if row not in finished]
        longest = max((row.length for row, _ in staying), default=0)
        self.cache.reserve(len(self.rows) + len(staying), max(longest, self._longest()))
        for row, cache in staying:
            self.cache.adopt(len(self.rows), cache)
            self.rows.append(row)
        self.prompts.seated(rows)
