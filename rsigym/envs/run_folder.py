"""A run's folder: made for a new run, or taken up again where an earlier process left it."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from rsigym.operations.json_value import Json
from rsigym.platform.errors import OperatorError
from rsigym.platform.journal import JOURNAL, Journal, read_journal
from rsigym.platform.records import write_json

__all__ = ["RESULT", "RunFolder"]

_FACTS, RESULT = "experiment.json", "result.json"
_MAY_CHANGE = {"versions", "permissions"}
"""Of `experiment.json`: what another process may have otherwise. Permissions only narrow."""


class RunFolder:
    """The folder of a run, locked against every other process for as long as it is open.

    Attributes:
        path: Where it is; its name is the run's id.
        facts: What is written in `experiment.json`; empty in a new folder.
        seconds: How long earlier processes worked on the run.
    """

    def __init__(self, path: Path):
        """
        Raises:
            OperatorError: Another process has it.
        """
        self.path = path.resolve()
        self.facts: dict[str, Any] = {}
        self.seconds = 0.0
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise OperatorError(f"the run in {path} is going on in another process") from None

    @classmethod
    def new(cls, parent: Path, name: str) -> Self:
        """A folder that nobody else has, below `parent`.

        Raises:
            OperatorError: It cannot be made.
        """
        when = time.strftime("%Y%m%d-%H%M%S")
        path = parent / f"{name.lower()}-{when}-{secrets.token_hex(3)}"
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise OperatorError(f"no run folder can be made at {path}: {error}") from error
        return cls(path)

    @classmethod
    def existing(cls, path: Path) -> Self:
        """The folder of a run that has not ended.

        Raises:
            OperatorError: There is none, it has ended, or another process has it.
        """
        if not (path / _FACTS).is_file():
            raise OperatorError(f"{path} is no run folder: it has no {_FACTS}")
        folder = cls(path)
        try:
            folder._read()
        except BaseException:
            folder.close()
            raise
        return folder

    def _read(self) -> None:
        """What earlier processes left; asked once nobody else can end the run."""
        if (self.path / RESULT).exists():
            raise OperatorError(f"the run in {self.path} has ended: its {RESULT} is there")
        try:
            self.facts = json.loads((self.path / _FACTS).read_text(encoding="utf-8"))
        except ValueError as error:
            raise OperatorError(f"{self.path / _FACTS} is damaged: {error}") from None
        self.seconds = _worked(self.path)

    @property
    def resumed(self) -> bool:
        """Whether an earlier process began the run."""
        return bool(self.facts)

    def fix(self, facts: Mapping[str, Json]) -> None:
        """Write down all that fixes the run, or, in a run taken up again, see that it is the same.

        Raises:
            OperatorError: It is not, so that the run's results would be of two experiments, or
                nothing can be written.
        """
        try:
            if self.resumed:
                self._require_same(facts)
                with closing(Journal(self.path / JOURNAL)) as journal:
                    journal.append(
                        {"event": "resumed", "seconds": self.seconds, "time": time.time()}
                    )
            else:
                write_json(self.path / _FACTS, {**facts})
        except OSError as error:
            raise OperatorError(f"nothing can be written to {self.path}: {error}") from error

    def _require_same(self, facts: Mapping[str, Json]) -> None:
        now = json.loads(json.dumps(facts))
        changed = [
            name
            for name in sorted({*now, *self.facts} - _MAY_CHANGE)
            if now.get(name) != self.facts.get(name)
        ]
        if changed:
            raise OperatorError(
                f"the run in {self.path} cannot go on: {', '.join(changed)} changed since it began"
            )

    def close(self) -> None:
        """Let others have it; twice is fine."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def _worked(path: Path) -> float:
    """Seconds that processes worked on a run, each until it wrote to the journal for the last time;
    what lies between one's end and the next one's start is no work."""
    journal, seconds, began = path / JOURNAL, 0.0, (path / _FACTS).stat().st_mtime
    if not journal.exists():
        return seconds
    for event in read_journal(journal):
        match event:
            case {"event": "resumed", "seconds": float(earlier), "time": float(when)}:
                seconds, began = earlier, when
    return seconds + max(0.0, journal.stat().st_mtime - began)
