"""A run's own memory: a record of every call, kept by the platform alone, so that it holds whatever
the agent says it did.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from rsigym.operations.json_value import Json

__all__ = [
    "WORKSPACE",
    "FolderRecords",
    "MemoryRecords",
    "Records",
    "read_calls",
    "read_lines",
    "write_json",
]

WORKSPACE = "workspace"
"""In a run folder: what is the agent's own."""


class Records(Protocol):
    """The records of a run, one a call. Safe from any thread."""

    def names(self) -> list[str]:
        """The names of the records that are there, in no order."""
        ...

    def write(self, name: str, about: dict[str, Json], call: str, evidence: str) -> None:
        """Keep the record of a call.

        Args:
            about: How it went.
            call, evidence: As JSON texts.

        Raises:
            OSError: It could not be written.
        """
        ...

    def calls(self) -> dict[str, dict[str, Any]]:
        """The record of every call by its name, in the order in which they were made."""
        ...

    def set_aside(self, name: str, evidence: str) -> str | None:
        """Keep the text of evidence that is too large to be shown, to be read in pieces.

        Answers its path in the workspace; None where it is not kept.

        Raises:
            OSError: It could not be written.
        """
        ...


class FolderRecords:
    """Records below a run's folder, one file a call."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._calls = folder / _CALLS
        self._calls.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        return [path.stem for path in self._calls.glob("*.json")]

    def write(self, name: str, about: dict[str, Json], call: str, evidence: str) -> None:
        text = f'{{"call": {call}, "evidence": {evidence}, {json.dumps(about)[1:]}'
        (self._calls / f"{name}.json").write_text(text, encoding="utf-8")

    def calls(self) -> dict[str, dict[str, Any]]:
        return read_calls(self._folder)

    def set_aside(self, name: str, evidence: str) -> str | None:
        path = self._folder / WORKSPACE / "evidence" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(json.loads(evidence), indent=1), encoding="utf-8")
        return f"{path.parent.name}/{path.name}"


class MemoryRecords:
    """Records of a run without a folder; they go with it."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[dict[str, Json], str, str]] = {}

    def names(self) -> list[str]:
        return [*self._calls]

    def write(self, name: str, about: dict[str, Json], call: str, evidence: str) -> None:
        self._calls[name] = about, call, evidence

    def calls(self) -> dict[str, dict[str, Any]]:
        return {
            name: {"call": json.loads(call), "evidence": json.loads(evidence), **about}
            for name, (about, call, evidence) in sorted(self._calls.items())
        }

    def set_aside(self, name: str, evidence: str) -> str | None:
        """Nothing: whoever serves such a run bounds what it answers."""


_CALLS = Path("records", "calls")


def read_calls(folder: Path) -> dict[str, dict[str, Any]]:
    """The record of every call of the run in a folder by its name, in the order of the calls.

    A record that the end of the process cut short is left out.
    """
    calls: dict[str, dict[str, Any]] = {}
    for path in sorted((folder / _CALLS).glob("*.json")):
        with suppress(ValueError):
            calls[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return calls


def write_json(path: Path, value: Json) -> None:
    """Replace a file whole: a reader sees the old text or the new one, whoever else writes it.

    Raises:
        OSError: It could not be written; the old text is there.
    """
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        scratch.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, if there is one; a line not written whole is left out."""
    if not path.is_file():
        return
    with path.open("rb") as lines:
        for line in lines:
            with suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found
