"""Work that goes on after its call was answered: one place that knows what is running."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from rsigym.operations.json_value import Json
from rsigym.platform.errors import BadCall

__all__ = ["ENDED", "Job", "JobState", "Jobs"]

type JobState = Literal["running", "done", "cancelled", "exhausted", "failed"]

ENDED: frozenset[JobState] = frozenset({"done", "cancelled", "exhausted", "failed"})
"""`exhausted`: the budget ended the work; what was paid for is kept."""


class Job(Protocol):
    """Running or ended work.

    Attributes:
        finishes: Whether it comes to an end by itself, so that there is something to wait for.
    """

    handle: str
    finishes: bool

    @property
    def state(self) -> JobState: ...

    @property
    def progress(self) -> tuple[int, int]:
        """How many of how many units (steps, trials) are done."""
        ...

    def summary(self) -> dict[str, Json]:
        """State, progress and cost, small enough to list many."""
        ...

    def cancel(self) -> None:
        """Ask it to stop; it ends soon and keeps what was paid for. Twice is fine."""
        ...

    def join(self) -> None:
        """Wait until it has ended."""
        ...


class Jobs:
    """Every job of a run. Safe from any thread."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._counts: dict[str, int] = {}
        self._changed = threading.Condition()
        self._closed = False

    def add[J: Job](self, kind: str, start: Callable[[str], J]) -> J:
        """Make a job under the next handle of its kind, `training-1`, `training-2`, ….

        Raises:
            BadCall: The run is over.
        """
        with self._changed:
            if self._closed:
                raise BadCall("the run is over: nothing new can be started")
            number = self._counts.get(kind, 0) + 1
            job = start(f"{kind}-{number}")
            self._counts[kind] = number
            self._jobs[job.handle] = job
            return job

    def get[J: Job](self, handle: str, kind: type[J]) -> J:
        """The job of that kind behind a handle.

        Raises:
            BadCall: There is none; the message names those there are.
        """
        with self._changed:
            job = self._jobs.get(handle)
        if not isinstance(job, kind):
            known = [each.handle for each in self.of(kind)]
            raise BadCall(
                f"there is no such handle {handle!r}; "
                + (f"there are: {', '.join(known)}" if known else "none was given out yet")
            )
        return job

    def changed(self) -> None:
        """A job tells those who wait that its state has changed."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, handles: Iterable[str] | None, timeout_s: float) -> list[Job]:
        """Wait until a job among `handles` ends, `timeout_s` at most.

        None stands for all that run now and finish.

        Answers the jobs that were waited for, in order. Jobs that have ended already count.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            if handles is None:
                running = [job for job in self._jobs.values() if job.state not in ENDED]
                jobs = [job for job in running if job.finishes]
            else:
                jobs = [self._known(handle) for handle in handles]
            while jobs and not any(job.state in ENDED for job in jobs):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
        return jobs

    def _known(self, handle: str) -> Job:
        if handle not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise BadCall(f"there is no such handle {handle!r}; there are: {known}")
        return self._jobs[handle]

    def of[J: Job](self, kind: type[J]) -> list[J]:
        """Every job of a kind, in the order in which they were started."""
        with self._changed:
            return [job for job in self._jobs.values() if isinstance(job, kind)]

    def all(self) -> list[Job]:
        """Every job, in the order in which they were started."""
        with self._changed:
            return [*self._jobs.values()]

    def running(self) -> list[Job]:
        """The jobs that have not ended."""
        with self._changed:
            return [job for job in self._jobs.values() if job.state not in ENDED]

    def close(self) -> None:
        """Cancel everything, and wait until it has ended."""
        with self._changed:
            self._closed = True
        running = self.running()
        for job in running:
            job.cancel()
        for job in running:
            job.join()
