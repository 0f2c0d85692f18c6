"""Who works next on the engine's one thread: training or sampling, and which adapter.

The rule, in one place:
- Training and sampling get equal time while both have work. Whoever has used less since both have
  been busy goes next; a side that was idle has saved nothing up.
- The unit of training is a micro-batch, the unit of sampling one step of the running batch, so
  neither waits for more than one unit of the other plus its own backlog of time.
- Within training, adapters take turns, a unit each; requests of one adapter keep their order.
- Within sampling, requests share every step; those that find no place wait in order.
"""

import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from rsigym.local.tinker.promise import fail, resolve

__all__ = ["RunningBatch", "Scheduler", "Steps", "single"]

type Steps[T] = Generator[None, None, T]
"""Work in units: yields between them, returns its result."""


def single[T](call: Callable[[], T]) -> Steps[T]:
    """Work of one unit."""
    yield from ()
    return call()


class RunningBatch(Protocol):
    """The sampling side: `Sampler`."""

    @property
    def busy(self) -> bool: ...

    def step(self) -> None: ...

    def fail_all(self, error: BaseException) -> None: ...


@dataclass
class _Work:
    future: Future[Any]
    steps: Steps[Any]


class Scheduler:
    """Runs one unit at a time on the calling thread.

    Args:
        sampler: The running batch.
        clock: Seconds that have passed.
    """

    def __init__(self, sampler: RunningBatch, clock: Callable[[], float] = time.perf_counter):
        self._sampler = sampler
        self._clock = clock
        self._lanes: dict[str, deque[_Work]] = {}
        self._training_lead = 0.0
        """Seconds that training has used beyond what sampling has, while both were busy."""

    @property
    def busy(self) -> bool:
        return bool(self._lanes) or self._sampler.busy

    def add[T](self, adapter: str, future: Future[T], steps: Steps[T]) -> None:
        """Queue training work behind what its adapter already has."""
        self._lanes.setdefault(adapter, deque()).append(_Work(future, steps))

    def turn(self) -> None:
        """Run one unit of whichever side is due."""
        both = bool(self._lanes) and self._sampler.busy
        if not both:
            self._training_lead = 0.0
        start = self._clock()
        if self._lanes and not (both and self._training_lead >= 0):
            self._train()
            sign = 1
        elif self._sampler.busy:
            self._sample()
            sign = -1
        else:
            return
        if both:
            self._training_lead += sign * (self._clock() - start)

    def fail_all(self, error: BaseException) -> None:
        """Give the error to everything that waits."""
        for lane in self._lanes.values():
            for work in lane:
                work.steps.close()
                fail(work.future, error)
        self._lanes.clear()
        self._sampler.fail_all(error)

    def _train(self) -> None:
        adapter, lane = next(iter(self._lanes.items()))
        work = lane[0]
        if self._unit(work):
            lane.popleft()
        # The adapter goes to the end of the line.
        del self._lanes[adapter]
        if lane:
            self._lanes[adapter] = lane

    def _unit(self, work: _Work) -> bool:
        """Run a unit; True when the work has come to an end."""
        if work.future.cancelled():
            work.steps.close()
            return True
        try:
            next(work.steps)
        except StopIteration as end:
            resolve(work.future, end.value)
            return True
        except Exception as error:  # noqa: BLE001 - one request's failure is its own
            fail(work.future, error)
            return True
        return False

    def _sample(self) -> None:
        try:
            self._sampler.step()
        except Exception as error:  # noqa: BLE001 - the batch is lost, the engine goes on
            self._sampler.fail_all(error)
