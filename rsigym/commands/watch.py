"""Looking at a run from beside it, while the agent works in the main thread."""

import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import gymnasium as gym

from rsigym.envs.env import RSIGymEnv
from rsigym.envs.episode import Episode
from rsigym.platform.money import to_usd
from rsigym.report.wording import dollars
from rsigym.services.evaluated import Evaluated
from rsigym.services.evaluation_job import EvaluationJob
from rsigym.services.jobs import ENDED, Job
from rsigym.services.sandbox_job import SandboxJob

__all__ = ["Budget", "Display", "Progress", "Watched", "Watcher", "progress_of"]

INTERVAL_S = 0.2


@dataclass(frozen=True)
class Progress:
    """How far a job is: `done` of `total` units, its state, and what it measures."""

    handle: str
    done: int
    total: int
    unit: str
    state: str
    detail: str


@dataclass(frozen=True)
class Budget:
    """US dollars of a run."""

    spent: float
    held: float
    total: float

    def __str__(self) -> str:
        held = f", {dollars(self.held)} held" if self.held else ""
        return f"{dollars(self.spent)} spent{held} of {dollars(self.total)}"


class Display(Protocol):
    """Where progress is shown."""

    def running(self, jobs: list[Progress], budget: Budget) -> None:
        """What runs now; called often, also when nothing has changed."""
        ...

    def ended(self, job: Progress) -> None:
        """A job that was shown has ended."""
        ...

    def close(self) -> None: ...


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """An env whose last episode is remembered after it was closed.

    Attributes:
        last: The episode of the last reset.
    """

    def __init__(self, env: gym.Env[Any, Any], inner: RSIGymEnv):
        super().__init__(env)
        self.inner = inner
        self.last: Episode | None = None
        # An episode must not be closed while it is looked at.
        self.lock = threading.Lock()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        with self.lock:
            answer = super().reset(seed=seed, options=options)
            self.last = self.inner.episode
        return answer

    def close(self) -> None:
        with self.lock:
            super().close()


class Watcher:
    """Shows what runs in a watched env, from a thread of its own, for the length of a block."""

    def __init__(self, env: Watched, display: Display):
        self._env = env
        self._display = display
        self._episode: Episode | None = None
        self._ended: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rsigym-progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        self._display.close()

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            self._look()

    def _look(self) -> None:
        with self._env.lock:
            episode = self._env.last
            budget = _budget(episode) if episode and self._env.inner.episode else None
        if episode is None:
            return
        if episode is not self._episode:
            self._episode, self._ended = episode, set()
        running: list[Progress] = []
        for job in _jobs(episode):
            if job.state not in ENDED:
                running.append(progress_of(job))
            elif job.handle not in self._ended:
                self._ended.add(job.handle)
                self._display.ended(progress_of(job))
        if budget is not None:
            self._display.running(running, budget)


def _jobs(episode: Episode) -> list[Job]:
    """Every job of an episode, those that have ended and official evaluations included."""
    return [*episode.jobs.all(), *episode.official.jobs]


def _budget(episode: Episode) -> Budget:
    balance = episode.balance
    return Budget(to_usd(balance.spent), to_usd(balance.held), to_usd(balance.total or 0))


def progress_of(job: Job) -> Progress:
    """How far a training run or an evaluation is, or how long a sandbox has lived.

    Cheap: it is asked several times a second.
    """
    done, total = job.progress
    if isinstance(job, SandboxJob):
        return Progress(job.handle, done, total, "s", job.state, "")
    if isinstance(job, EvaluationJob):
        rewards = [record.reward or 0.0 for record in list(job.records)]
        detail = f"mean reward {sum(rewards) / len(rewards):.3f}" if rewards else ""
        return Progress(job.handle, done, total, "trials", job.state, detail)
    nll = job.summary().get("nll")
    detail = f"nll {nll:.4f}" if isinstance(nll, float) else ""
    unit = "trials" if isinstance(job, Evaluated) else "steps"
    return Progress(job.handle, done, total, unit, job.state, detail)
