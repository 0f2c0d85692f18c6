"""The scores of an episode: where each benchmark started, how far development has come."""

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rsigym.operations.json_value import Json
from rsigym.services.evaluation_job import EvaluationJob, score_of
from rsigym.services.jobs import Jobs

__all__ = ["Scoreboard"]


class Scoreboard:
    """Initial scores, the best development scores, and what was submitted. Safe from any thread.

    Attributes:
        submissions: The official outcome by benchmark.
    """

    def __init__(self, benchmarks: Sequence[str], jobs: Jobs):
        self.benchmarks = tuple(benchmarks)
        self.initial: dict[str, float] = {}
        self.submissions: dict[str, dict[str, Json]] = {}
        self._jobs = jobs
        self._lock = threading.Lock()

    def development(self) -> list[EvaluationJob]:
        """The development evaluations that ran to their end."""
        return [job for job in self._jobs.of(EvaluationJob) if job.state == "done"]

    def best(self, benchmark: str) -> float | None:
        """The best development score; None before the first."""
        scores = [
            score_of(job.score) for job in self.development() if job.plan.benchmark == benchmark
        ]
        return max(scores, default=None)

    def submit(self, benchmark: str, outcome: dict[str, Json]) -> None:
        """Note the official outcome of a benchmark's one submission."""
        with self._lock:
            self.submissions[benchmark] = outcome

    @property
    def complete(self) -> bool:
        """Whether every benchmark has its submission."""
        return all(benchmark in self.submissions for benchmark in self.benchmarks)

    def array(self) -> npt.NDArray[np.float64]:
        """[initial, best development score] by benchmark, −1 where none: (n_benchmarks, 2)."""
        rows = [(self.initial.get(name), self.best(name)) for name in self.benchmarks]
        return np.array(
            [[-1.0 if score is None else score for score in row] for row in rows], np.float64
        )
