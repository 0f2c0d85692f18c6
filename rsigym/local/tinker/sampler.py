"""Continuous batching: requests join and leave the running batch token by token.

A step gives one token to every running row and reads a bounded stretch of waiting prompts, all in
one pass through the model, whatever adapter each row uses. A prompt is read once for all its
samples. Keys and values have a fixed share of memory: when the running rows outgrow it, the one
that has written least goes back to the head of the queue with what it has, to be read again later.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from rsigym.local.tinker.batch import Batch, delta_of
from rsigym.local.tinker.cache import DecodeCache, PromptCache, bytes_per_token
from rsigym.local.tinker.choice import choose
from rsigym.local.tinker.logprobs import likeliest, score
from rsigym.local.tinker.lora import Adapter
from rsigym.local.tinker.model import Decoder
from rsigym.local.tinker.promise import fail
from rsigym.local.tinker.rows import Reading, Request, Row, checked
from rsigym.local.tinker.specs import SampleResult, SampleSpec

__all__ = ["Sampler"]

MAX_ROWS = 64
"""Rows that decode at once."""

READ_TOKENS = 1024
"""Prompt tokens read in one step: two thirds of the work of a training micro-batch. Smaller steps
would not bring the running rows to their end any sooner, unless the prompts are longer than this.
"""

HEADROOM = 64
"""Tokens that every row can write after one joins before a row has to be sent back."""

CACHE_BYTES = 2**30
"""Keys and values of the running rows: 23,000 tokens of SmolLM2-135M in float32."""


class Sampler:
    """The running batch of one model.

    Args:
        decoder: The model.
        folder: Its folder, for the tokenizer that stop strings need.
        cache_bytes: Memory for the keys and values of the running rows.
    """

    def __init__(self, decoder: Decoder, folder: Path, *, cache_bytes: int = CACHE_BYTES):
        self.decoder = decoder
        self.folder = folder
        shape = decoder.architecture
        self.cache_tokens = cache_bytes // bytes_per_token(shape, decoder.dtype)
        self.cache = DecodeCache(shape, decoder.dtype)
        self.waiting: deque[Reading] = deque()
        self.reading: list[Reading] = []
        self.rows: list[Row] = []

    @property
    def busy(self) -> bool:
        """Whether a step has something to do."""
        return bool(self.waiting or self.reading or self.rows)

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
        self.waiting.append(Reading(rows))

    def fail_all(self, error: BaseException) -> None:
        """Give every request the error and start afresh."""
        for request in {row.request for row in self._all_rows()}:
            fail(request.future, error)
        self.waiting.clear()
        self.reading.clear()
        self.rows.clear()
        self.cache.clear()

    @torch.inference_mode()
    def step(self) -> None:
        """One pass through the model."""
        self._drop_cancelled()
        self._send_back()
        reads = self._plan_reading()
        if self.rows or reads:
            self.cache.reserve(len(self.rows), self._longest())
            self._run(Batch(self.rows, reads, self.cache))
        self._seat()
        if not self.rows:
            self.cache.clear()

    def _all_rows(self) -> list[Row]:
        readings = (*self.waiting, *self.reading)
        return [*self.rows, *(row for reading in readings for row in reading.rows)]

    def _drop_cancelled(self) -> None:
        if any(row.request.future.cancelled() for row in self._all_rows()):
            self.waiting = deque(r for r in self.waiting if not r.request.future.cancelled())
            self.reading = [r for r in self.reading if not r.request.future.cancelled()]
            self._leave([row for row in self.rows if row.request.future.cancelled()])

    def _leave(self, gone: Sequence[Row]) -> None:
        """Free the rows' slots; the last row moves into each."""
        for slot in sorted((self.rows.index(row) for row in gone), reverse=True):
            last = self.rows.pop()
            if slot < len(self.rows):
                self.cache.move(len(self.rows), slot, last.length)
                self.rows[slot] = last

    def _fits(self, rows: int, longest: int) -> bool:
        """A single row always fits: the context bounds it."""
        return rows <= 1 or (rows <= MAX_ROWS and rows * longest <= self.cache_tokens)

    def _longest(self) -> int:
        """Tokens of the longest row once it has its next one."""
        return max((row.length + 1 for row in self.rows), default=0)

    def _send_back(self) -> None:
        while not self._fits(len(self.rows), self._longest()):
            cheapest = min(self.rows, key=lambda row: len(row.tokens))
            self._leave([cheapest])
            self.waiting.appendleft(Reading([cheapest]))

    def _plan_reading(self) -> list[tuple[Reading, int]]:
        """Which prompts read how many tokens now: first come, first read."""
        reads: list[tuple[Reading, int]] = []
        room = READ_TOKENS
        begun = iter([reading for reading in self.reading if reading.logits is None])
        while room and (reading := next(begun, None) or self._start_reading()):
            count = min(room, len(reading.tokens) - reading.done)
            reads.append((reading, count))
            room -= count
        return reads

    def _start_reading(self) -> Reading | None:
        """The next prompt in the queue, if its first row will find a place."""
        if not self.waiting:
            return None
        rows = len(self.rows) + len(self.reading) + 1
        lengths = [len(reading.tokens) for reading in (*self.reading, self.waiting[0])]
        if not self._fits(rows, max(self._longest(), *lengths) + HEADROOM):
            return None
        self.reading.append(self.waiting.popleft())
        return self.reading[-1]

    def _run(self, batch: Batch) -> None:
        hidden = self.decoder.hidden(batch.tokens, batch.positions, batch.attention, batch.delta)
        for reading, chunk in batch.chunks:
            if reading.scored:
                self._score(reading, hidden[chunk.offset :], chunk.start, chunk.end)
            reading.done = chunk.end
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

    def _score(self, reading: Reading, hidden: Tensor, start: int, end: int) -> None:
        """Log-probabilities of the tokens that follow positions start … end - 1 of the prompt."""
        request = reading.request
        end = min(end, len(reading.tokens) - 1)
        if end <= start:
            return
        hidden, unembed = hidden[: end - start], self.decoder.unembed
        adapter = request.adapter
        delta = delta_of([] if adapter is None else [(0, len(hidden), adapter)])
        follows = slice(start + 1, end + 1)
        if request.spec.prompt_logprobs:
            targets = torch.tensor(reading.tokens[follows])[:, None]
            request.prompt_logprobs[follows] = score(unembed, delta, hidden, targets)[:, 0].numpy()
        if k := request.spec.topk_prompt_logprobs:
            ids, logprobs = likeliest(unembed, delta, hidden, k)
            request.topk_ids[follows] = ids.numpy().astype(np.int32)
            request.topk_logprobs[follows] = logprobs.numpy()

    def _seat(self) -> None:
        """Give the rows of prompts that have been read their first token, and a slot."""
        joining = self._take_ready()
        if not joining:
            return
        logits = torch.stack([logits for _, _, logits in joining])
        finished = self._write([row for row, _, _ in joining], logits)
        staying = [(row, cache) for row, cache, _ in joining if row not in finished]
        longest = max((row.length for row, _ in staying), default=0)
        self.cache.reserve(len(self.rows) + len(staying), max(longest, self._longest()))
        for row, cache in staying:
            self.cache.adopt(len(self.rows), cache)
            self.rows.append(row)

    def _take_ready(self) -> list[tuple[Row, PromptCache, Tensor]]:
        """Rows whose prompts have been read, as many as find a place; oldest prompts first."""
        ready: list[tuple[Row, PromptCache, Tensor]] = []
        longest = self._longest()
        for reading in list(self.reading):
            if reading.logits is None:
                continue
            longest = max(longest, len(reading.tokens))
            while reading.rows and self._fits(len(self.rows) + len(ready) + 1, longest + HEADROOM):
                ready.append((reading.rows.pop(0), reading.cache, reading.logits))
            if not reading.rows:
                self.reading.remove(reading)
        return ready
