"""The run folder's own memory: a record of every call, written by the platform alone, so that it
holds whatever the agent says it did.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsigym.operations.json_value import Json

__all__ = ["Records", "read_lines", "write_json"]


class Records:
    """The records below a run's folder, one file a call. Safe from any thread."""

    def __init__(self, folder: Path):
        self.folder = folder / "records"
        self._calls = self.folder / "calls"
        self._calls.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """The names of the records that are there, in no order."""
        return [path.stem for path in self._calls.glob("*.json")]

    def write(self, name: str, record: dict[str, Json]) -> None:
        """Keep the record of a call.

        Raises:
            OSError: It could not be written.
        """
        (self._calls / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")


def write_json(path: Path, value: Json) -> None:
    """Replace a file whole: a reader sees the old text or the new one."""
    scratch = path.with_name(f".{path.name}.tmp")
    scratch.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    scratch.replace(path)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, if there is one; a line not written whole is left out."""
    if path.is_file():
        for line in path.read_text(encoding="utf-8").split("\n"):
            with suppress(ValueError):
                yield json.loads(line)
