"""What a training run has come to: in memory, and in its folder for whoever takes the run up again.

`metrics.jsonl` and `checkpoints.jsonl` grow line by line, so that a process that dies loses nothing
that was paid for.
"""

import json
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from rsigym.operations.json_value import Json
from rsigym.platform.records import read_lines
from rsigym.services.jobs import JobState, load_end, store_end

__all__ = ["Checkpoint", "TrainingLog"]

_METRICS, _CHECKPOINTS = "metrics.jsonl", "checkpoints.jsonl"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights after `step` steps: to sample from, and to train on from."""

    step: int
    sampler: str
    state: str


class TrainingLog:
    """State, step metrics and checkpoints of one training run. Safe from any thread.

    Attributes:
        steps: How many there are to do.
        state: How far it is.
        error: The error of its evidence, if it has failed or money ended it.
    """

    def __init__(self, folder: Path, steps: int):
        self.steps = steps
        self.state: JobState = "running"
        self.error: Json = None
        self._folder = folder
        self._metrics: list[dict[str, Json]] = []
        self._checkpoints: list[Checkpoint] = []
        self._lock = threading.Lock()

    @classmethod
    def past(cls, folder: Path, steps: int) -> Self:
        """The log that an earlier process left in a folder."""
        log = cls(folder, steps)
        log._metrics = [*read_lines(folder / _METRICS)]
        log._checkpoints = [Checkpoint(**each) for each in read_lines(folder / _CHECKPOINTS)]
        log.state, log.error = load_end(folder)
        return log

    @property
    def done(self) -> int:
        """Steps that were done."""
        return len(self._metrics)

    @property
    def metrics(self) -> list[dict[str, Json]]:
        with self._lock:
            return [*self._metrics]

    @property
    def checkpoints(self) -> list[Checkpoint]:
        with self._lock:
            return [*self._checkpoints]

    def note(self, metrics: dict[str, Json]) -> None:
        """A step was done."""
        self._append(_METRICS, metrics)
        with self._lock:
            self._metrics.append(metrics)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Its weights were saved."""
        self._append(_CHECKPOINTS, asdict(checkpoint))
        with self._lock:
            self._checkpoints.append(checkpoint)

    def end(self, state: JobState, error: Json) -> None:
        """It has ended, and why."""
        store_end(self._folder, state, error)
        self.state, self.error = state, error

    def _append(self, name: str, line: dict[str, Json]) -> None:
        with (self._folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
