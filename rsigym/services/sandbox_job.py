"""One sandbox of an agent's, from its creation to its end, under a lease."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from rsigym.operations.json_value import Json
from rsigym.operations.sandbox import SandboxCreate
from rsigym.platform.errors import BadCall, Failure, ServiceFailure
from rsigym.platform.meter import Meter
from rsigym.platform.money import to_usd
from rsigym.services.e2b_client import RemoteSandbox
from rsigym.services.e2b_failures import failure_of
from rsigym.services.jobs import JobState
from rsigym.services.loop import BackgroundLoop
from rsigym.services.sandbox_lease import Lease, LeaseEnd, Terms

if TYPE_CHECKING:
    from e2b import AsyncSandbox

__all__ = ["SandboxJob"]

_log = logging.getLogger(__name__)

_STATES: dict[LeaseEnd, JobState] = {
    "expired": "done",
    "exhausted": "exhausted",
    "lost": "failed",
}


class SandboxJob:
    """A sandbox that is starting, running or gone; a `Job` that nobody waits for.

    It owns `meter` and settles it.

    Args:
        seconds: What `meter` holds.
        remote: The sandbox itself, not made yet.
        ended: Called once it is gone.

    Attributes:
        ending: The state that it will have, from when it begins to end.
    """

    finishes = False

    def __init__(
        self,
        handle: str,
        call: SandboxCreate,
        *,
        meter: Meter,
        terms: Terms,
        seconds: int,
        remote: RemoteSandbox,
        loop: BackgroundLoop,
        ended: Callable[[], None],
    ):
        self.handle = handle
        self.call = call
        self._meter, self._terms, self._seconds = meter, terms, seconds
        self._remote = remote
        self._loop, self._on_end = loop, ended
        self.ending: JobState | None = None
        self._state: JobState = "running"
        self._error: Failure | None = None
        self._task: asyncio.Task[None] | None = None
        self._opened: Future[AsyncSandbox] = Future()
        self._lease: Lease | None = None
        self._ended = threading.Event()
        self._started = time.monotonic()
        self._lived_s: float | None = None

    @property
    def state(self) -> JobState:
        return self._state

    @property
    def progress(self) -> tuple[int, int]:
        """Seconds that it has lived, of those that it may."""
        return min(int(self._seconds_lived), self.call.timeout_s), self.call.timeout_s

    @property
    def _seconds_lived(self) -> float:
        return time.monotonic() - self._started if self._lived_s is None else self._lived_s

    @property
    def left_s(self) -> int:
        """Seconds that it will live, as far as the budget covers them."""
        return self._lease.left_s if self._lease else 0

    def start(self) -> "AsyncSandbox":
        """Begin, and wait until it is there.

        Raises:
            Failure: It could not be made.
        """
        self._loop.submit(self._live())
        return self._opened.result()

    def sandbox(self) -> "AsyncSandbox":
        """The sandbox itself.

        Raises:
            Failure: It is gone; the message says why.
        """
        if self.ending is not None:
            raise self.gone()
        return self._opened.result()

    def gone(self) -> Failure:
        """Why there is no such sandbox any more."""
        match self.ending:
            case "done":
                reason = f"its {self.call.timeout_s} s were over"
            case "exhausted":
                reason = "the budget could not pay for more of its time"
            case "cancelled":
                reason = "it was killed"
            case _:
                why = self._error.message if self._error else "its server does not know it any more"
                return ServiceFailure(f"{self.handle} was lost: {why}", side="sandbox")
        return BadCall(f"{self.handle} is gone: {reason}; what was in it is lost")

    def lost(self, error: Failure) -> None:
        """It was found dead."""
        self._error = self._error or error
        self._loop.submit(self._stop("failed"))

    def summary(self) -> dict[str, Json]:
        error: dict[str, Json] = {"error": self._error.message} if self._error else {}
        return {
            "handle": self.handle,
            "kind": "sandbox",
            "state": self.state,
            "seconds": round(self._seconds_lived, 1),
            "cost_usd": to_usd(self._meter.spent),
            **error,
        }

    def cancel(self) -> None:
        self._loop.submit(self._stop("cancelled"))

    def join(self) -> None:
        self._ended.wait()

    async def _stop(self, state: JobState) -> None:
        if self.ending is None:
            self.ending = state
            if self._task is not None:
                self._task.cancel()

    async def _live(self) -> None:
        self._task = asyncio.current_task()
        try:
            if self.ending is None:
                self._lease = await self._open()
                self.ending = _STATES[await self._lease.keep()]
        except asyncio.CancelledError:
            self.ending = self.ending or "cancelled"
        except Exception as error:  # noqa: BLE001 -- whatever it was, the sandbox ends of it
            self.ending = "failed"
            self._error = failure_of(error)
        finally:
            await self._end()

    async def _open(self) -> Lease:
        """Make it. Its time begins before it is asked for, so that none of it is unpaid."""
        lease = Lease(
            self._meter, self._terms, self._seconds, self.call.timeout_s, self._remote.extend
        )
        self._opened.set_result(await self._remote.make(self.call, self._seconds))
        return lease

    async def _end(self) -> None:
        """Kill it and settle; what was never there costs nothing.

        What cannot be killed ends by the timeout that its server was told.
        """
        if not self._opened.done():
            self._opened.set_exception(self._error or self.gone())
        try:
            await self._remote.end()
        except Exception as error:  # noqa: BLE001 -- it has ended for the run all the same
            _log.warning("%s could not be killed: %s", self.handle, type(error).__name__)
        finally:
            self._settle()

    def _settle(self) -> None:
        try:
            if self._lease is not None:
                self._lease.settle()
            else:
                self._meter.settle()
        finally:
            self._lived_s = self._seconds_lived if self._lease else 0.0
            self._state = self.ending or "failed"
            self._ended.set()
            self._on_end()
