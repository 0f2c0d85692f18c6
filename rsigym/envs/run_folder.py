"""A run's folder: made for a new run, or taken up again where an earlier process left it."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from rsigym.operations.json_value import Json
from rsigym.platform.errors import OperatorError
from rsigym.platform.journal import JOURNAL
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
    """

    def __init__(self, path: Path):
        """
        Raises:
            OperatorError: Another process has it.
        """
        self.path = path.resolve()
        self.facts: dict[str, Any] = {}
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
        facts = path / _FACTS
        if not facts.is_file():
            raise OperatorError(f"{path} is no run folder: it has no {_FACTS}")
        if (path / RESULT).exists():
            raise OperatorError(f"the run in {path} has ended: its {RESULT} is there")
        folder = cls(path)
        folder.facts = json.loads(facts.read_text(encoding="utf-8"))
        return folder

    @property
    def resumed(self) -> bool:
        """Whether an earlier process began the run."""
        return bool(self.facts)

    @property
    def seconds(self) -> float:
        """How long the run was worked on by earlier processes."""
        if not self.resumed:
            return 0.0
        journal = self.path / JOURNAL
        return max(0.0, journal.stat().st_mtime - (self.path / _FACTS).stat().st_mtime)

    def fix(self, facts: Mapping[str, Json]) -> None:
        """Write down all that fixes the run, or, in a run taken up again, see that it is the same.

        Raises:
            OperatorError: It is not, so that the run's results would be of two experiments.
        """
        if not self.resumed:
            write_json(self.path / _FACTS, {**facts})
            return
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
