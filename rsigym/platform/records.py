"""The run folder's own memory: a journal of what was begun, and a record of every call.

It is written by the platform alone, so that it holds whatever the agent says it did.
"""

import json
import os
import threading
from pathlib import Path

from rsigym.operations.json_value import Json

__all__ = ["Records", "write_json"]


class Records:
    """The journal and the records below a run's folder. Safe from any thread."""

    def __init__(self, folder: Path):
        self.folder = folder / "records"
        (self.folder / "calls").mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._journal = (folder / "journal.jsonl").open("ab")

    def journal(self, event: dict[str, Json], *, durable: bool) -> None:
        """Append an event; `durable` waits until it would survive a loss of power."""
        line = json.dumps(event).encode() + b"\n"
        with self._lock:
            self._journal.write(line)
            self._journal.flush()
            if durable:
                os.fsync(self._journal.fileno())

    def write(self, name: str, record: dict[str, Json]) -> None:
        """Keep the record of a call."""
        path = self.folder / "calls" / f"{name}.json"
        path.write_text(json.dumps(record), encoding="utf-8")

    def close(self) -> None:
        """Let go of the journal; twice is fine."""
        self._journal.close()


def write_json(path: Path, value: Json) -> None:
    """Replace a file whole: a reader sees the old text or the new one."""
    scratch = path.with_name(f".{path.name}.tmp")
    scratch.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    scratch.replace(path)
