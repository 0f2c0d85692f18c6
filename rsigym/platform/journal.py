"""What was begun and what it used, line by line, so that a run that was killed can be put in order.

`{"event": "begin", "call", "op"}` is written after the hold and before the work, so that what has
no `begin` never began. `{"event": "end", "call", "items"}` is written after the work and before the
settlement: it is the bill of a call that ended and was not booked. `{"event": "reconciled", …}` is
what `reconcile` did about a hold that was still open at the next start. `{"event": "narrow",
"permissions"}` is what the run was narrowed by after it had begun. `{"event": "resumed", "seconds",
"time"}` is written when another process takes the run up: how long it had been worked on.
"""

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rsigym.operations.json_value import Json
from rsigym.platform.ledger import Item
from rsigym.platform.records import read_lines

__all__ = ["JOURNAL", "Journal", "NoJournal", "read_journal"]

JOURNAL = "journal.jsonl"
"""The journal's name in a run folder."""


class Journal:
    """The journal in the file `path`, to append to. Safe from any thread.

    A line is one write, so that several journals of one file, and a process that is killed, leave
    whole lines. A full disk can leave half a line: the next one then starts anew, and readers skip
    what is torn.
    """

    def __init__(self, path: Path):
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._file).st_size
        self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def begin(self, call_id: str, op: str, *, durable: bool) -> None:
        """The work of a call starts once this has returned.

        Args:
            durable: Wait until the line would survive a loss of power.

        Raises:
            OSError: It could not be written; the work must not start.
        """
        self.append({"event": "begin", "call": call_id, "op": op}, durable=durable)

    def end(self, call_id: str, items: Sequence[Item]) -> None:
        """The work of a call is over, and this is its bill.

        An `end` that cannot be written is let go: it serves only if the process dies before the
        settlement that follows, and the call is then booked at what it held.
        """
        bill: list[Json] = [item._asdict() for item in items]
        with contextlib.suppress(OSError):
            self.append({"event": "end", "call": call_id, "items": bill})

    def append(self, event: dict[str, Json], *, durable: bool = False) -> None:
        """Write one event.

        Raises:
            OSError: It could not be written whole.
        """
        line = json.dumps(event).encode() + b"\n"
        with self._lock:
            if self._torn:
                line = b"\n" + line
            self._torn = True
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError("the journal has no room for a whole line")
            self._torn = False
            if durable:
                os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file; twice is fine. What is appended from now on raises `OSError`."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1


class NoJournal(Journal):
    """Of a run that dies with its process: there will be nothing to put in order."""

    def __init__(self) -> None:
        """Nothing is opened."""

    def begin(self, call_id: str, op: str, *, durable: bool) -> None:
        pass

    def end(self, call_id: str, items: Sequence[Item]) -> None:
        pass

    def append(self, event: dict[str, Json], *, durable: bool = False) -> None:
        pass

    def close(self) -> None:
        pass


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Every event of a journal, in order; none where there is no journal."""
    return read_lines(path)
