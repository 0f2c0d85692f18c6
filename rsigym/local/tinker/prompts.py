"""The prompts on their way into the running batch: waiting, being read, and read.

First come, first read, but for one thing: a prompt that begins like one that is being read waits
until that much has been read, and takes it over.
"""

from collections import deque
from collections.abc import Collection, Iterator

from torch import Tensor

from rsigym.local.tinker.cache import PromptCache
from rsigym.local.tinker.prefixes import PrefixCache
from rsigym.local.tinker.room import HEADROOM, Room
from rsigym.local.tinker.rows import Reading, Row

__all__ = ["Prompts"]

READ_TOKENS = 1024
"""Prompt tokens read in one step: two thirds of the work of a training micro-batch. Smaller steps
would not bring the running rows to their end any sooner, unless the prompts are longer than this.
"""


class Prompts:
    """Readings in the order in which they came.

    Args:
        room: What the running batch may grow to.
        prefixes: What has been read before.
    """

    def __init__(self, room: Room, prefixes: PrefixCache):
        self._room = room
        self._prefixes = prefixes
        self._waiting: deque[Reading] = deque()
        self._begun: list[Reading] = []

    def __iter__(self) -> Iterator[Reading]:
        yield from self._begun
        yield from self._waiting

    def __bool__(self) -> bool:
        return bool(self._waiting or self._begun)

    def add(self, reading: Reading) -> None:
        """Queue a prompt."""
        self._waiting.append(reading)

    def send_back(self, row: Row) -> None:
        """Put a row that is to be read again at the head of the queue."""
        self._waiting.appendleft(Reading([row]))

    def drop_cancelled(self) -> None:
        """Forget the requests whose askers have gone; what they have read stays known."""
        self._waiting = deque(r for r in self._waiting if not r.request.future.cancelled())
        self._begun = [r for r in self._begun if not r.request.future.cancelled()]

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self._begun.clear()

    def plan(self, rows: int, longest: int) -> list[tuple[Reading, int]]:
        """Which prompts read how many tokens in this step.

        Args:
            rows: How many rows are decoding.
            longest: Tokens of the longest of them.
        """
        reads: list[tuple[Reading, int]] = []
        room = READ_TOKENS
        unread = iter([reading for reading in self._begun if reading.logits is None])
        while room and (reading := next(unread, None) or self._begin(rows, longest)):
            count = min(room, len(reading.tokens) - reading.done)
            reads.append((reading, count))
            room -= count
        return reads

    def has_read(self, reading: Reading, end: int) -> None:
        """Note how far a prompt has been read, and keep it for those that begin alike."""
        reading.done = end
        self._prefixes.keep(reading.keys_until(end), reading.cache)

    def ready(self, rows: int, longest: int) -> list[tuple[Row, PromptCache, Tensor]]:
        """Rows whose prompts have been read, as many as find a place; oldest prompts first.

        They stay here until they have been `seated`, so that none is lost to what fails between.

        Args:
            rows: How many rows are decoding.
            longest: Tokens of the longest of them.
        """
        ready: list[tuple[Row, PromptCache, Tensor]] = []
        for reading in self._begun:
            if reading.logits is None:
                continue
            longest = max(longest, len(reading.tokens))
            for row in reading.rows:
                if not self._room.fits(rows + len(ready) + 1, longest + HEADROOM):
                    break
                ready.append((row, reading.cache, reading.logits))
        return ready

    def seated(self, rows: Collection[Row]) -> None:
        """Let go of rows that have their place in the running batch, or are finished."""
        for reading in self._begun:
            reading.rows = [row for row in reading.rows if row not in rows]
        self._begun = [reading for reading in self._begun if reading.rows]

    def _begin(self, rows: int, longest: int) -> Reading | None:
        """The next prompt to be read, if its first row will find a place."""
        reading = self._next()
        if reading is None:
            return None
        lengths = [len(other.tokens) for other in (*self._begun, reading)]
        if not self._room.fits(rows + len(self._begun) + 1, max(longest, *lengths) + HEADROOM):
            return None
        self._waiting.remove(reading)
        self._begun.append(reading)
        reading.resume(self._prefixes.find(reading.known_keys))
        return reading

    def _next(self) -> Reading | None:
        """The first in the queue that would not read what is being read already."""
        coming = {
            key
            for reading in self._begun
            for key in reading.keys[: self._prefixes.size]
            if reading.logits is None
        }
        return next(
            (r for r in self._waiting if self._prefixes.missing(r.known_keys) not in coming), None
        )
