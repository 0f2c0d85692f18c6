"""One sandbox of an agent's, from its creation to its end, under a lease."""

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from rsigym.operations.json_value import Json
from rsigym.operations.sandbox import SandboxCreate
from rsigym.platform.errors import BadCall, Failure, ServiceFailure
from rsigym.platform.meter import Meter
from rsigym.platform.money import to_usd
from rsigym.services.e2b_client import E2BClient, failure_of, may_exist
from rsigym.services.jobs import JobState
from rsigym.services.loop import BackgroundLoop
from rsigym.services.sandbox_lease import Lease, LeaseEnd, Terms
from rsigym.services.sandbox_reap import reap

if TYPE_CHECKING:
    from e2b import AsyncSandbox

__all__ = ["SandboxJob"]

_log = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""How long the end of a run waits for a sandbox whose creation got no answer."""

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
        client: Where it is made.
        options: Of that endpoint, from `client.options()`.
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
        client: E2BClient,
        options: dict[str, Any],
        loop: BackgroundLoop,
        ended: Callable[[], None],
    ):
        self.handle = handle
        self.call = call
        self._meter, self._terms, self._seconds = meter, terms, seconds
        self._client, self._options = client, options
        self._loop, self._on_end = loop, ended
        self._tag = secrets.token_hex(16)
        self.ending: JobState | None = None
        self._state: JobState = "running"
        self._error: Failure | None = None
        self._task: asyncio.Task[None] | None = None
        self._opened: Future[AsyncSandbox] = Future()
        self._lease: Lease | None = None
        self._may_exist = False
        self._ended = threading.Event()
        self._started = time.monotonic()
        self._lived_s: float | None = None

    @property
    def state(self) -> JobState:
        return self._state

    @property
    def progress(self) -> tuple[int, int]:
        return int(self.state != "running"), 1

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
        lived = self._lived_s
        error: dict[str, Json] = {"error": self._error.message} if self._error else {}
        return {
            "handle": self.handle,
            "kind": "sandbox",
            "state": self.state,
            "seconds": round(time.monotonic() - self._started if lived is None else lived, 1),
            "cost_usd": to_usd(self._meter.spent),
            **error,
        }

    def cancel(self) -> None:
        self._loop.submit(self._stop("cancelled"))

    def join(self) -> None:
        self._ended.wait()

    async def _stop(self, state: JobState) -> None:
        if self.ending is None and self._task is not None:
            self.ending = state
            self._task.cancel()

    async def _live(self) -> None:
        self._task = asyncio.current_task()
        try:
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
        lease = Lease(self._meter, self._terms, self._seconds, self.call.timeout_s, self._extend)
        try:
            made = await self._client.create(self.call, self._seconds, self._tag, self._options)
        except BaseException as error:
            self._may_exist = may_exist(error)
            raise
        self._opened.set_result(made)
        return lease

    async def _extend(self, seconds: int) -> bool:
        from e2b import NotFoundException

        try:
            await self._opened.result().set_timeout(seconds)
        except NotFoundException:
            return False
        return True

    async def _end(self) -> None:
        """Kill it and settle; what was never there costs nothing.

        What cannot be killed ends by the timeout that its server was told.
        """
        if not self._opened.done():
            self._opened.set_exception(self._error or self.gone())
        try:
            if self._lease is not None:
                await self._client.kill(self._opened.result().sandbox_id, self._options)
            elif self._may_exist:
                await reap(self._find, self._kill, _PATIENCE_S)
        except Exception as error:  # noqa: BLE001 -- it has ended for the run all the same
            _log.warning("%s could not be killed: %s", self.handle, type(error).__name__)
        finally:
            self._settle()

    async def _find(self) -> list[str]:
        return await self._client.find(self._tag, self._options)

    async def _kill(self, sandbox_id: str) -> None:
        await self._client.kill(sandbox_id, self._options)

    def _settle(self) -> None:
        try:
            if self._lease is not None:
                self._lease.settle()
            else:
                self._meter.settle()
        finally:
            self._lived_s = time.monotonic() - self._started if self._lease else 0.0
            self._state = self.ending or "failed"
            self._ended.set()
            self._on_end()
