"""Promised answers, and the order in which the requests of one model are carried out.

The API answers a submit with a request id at once; the client then polls for the result. A
promise is an asyncio task that never raises: whatever goes wrong inside becomes an answer that
the SDK shows as `RequestFailedError`.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from rsigym.local.tinker.refusal import Refusal

__all__ = ["Answer", "Promises", "Turns", "json_answer"]

_log = logging.getLogger(__name__)

# A retrieved answer is kept this long, for a client whose connection broke while it read it.
KEPT_S = 120.0
# A request that waits this long for a predecessor nobody has sent is failed, not left hanging.
GAP_S = 60.0


@dataclass(frozen=True)
class Answer:
    """The body of a settled future as it goes over the wire."""

    body: bytes
    media_type: str


def json_answer(value: Mapping[str, object]) -> Answer:
    """`value` as JSON; NaN stays NaN, so that a diverged step can be reported."""
    return Answer(json.dumps(value).encode(), "application/json")


class Promises:
    """The futures of one session, by request id."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Answer]] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._tasks

    def make(self, request_id: str, work: Callable[[], Awaitable[Answer]]) -> None:
        """Start `work`; a request id that is promised already is a retry and starts nothing."""
        if request_id not in self._tasks:
            # Eagerly: one that is cancelled has begun, and gives up the turn that it was admitted
            # to. A task that is cancelled before its first step never runs at all.
            self._tasks[request_id] = asyncio.Task(
                _settled(request_id, work), loop=asyncio.get_running_loop(), eager_start=True
            )

    async def wait(self, request_id: str, seconds: float) -> Answer | None:
        """The answer, or None if it is not there after `seconds`."""
        task = self._tasks.get(request_id)
        if task is None:
            raise Refusal(404, f"no request {request_id!r}: it was never made or long since read")
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            return None
        asyncio.get_running_loop().call_later(KEPT_S, self._tasks.pop, request_id, None)
        return _cancelled() if task.cancelled() else task.result()

    def cancel(self, request_id: str) -> None:
        """Stop the work; a request that is finished or unknown is left as it is."""
        if task := self._tasks.get(request_id):
            task.cancel()

    def cancel_all(self) -> None:
        for task in self._tasks.values():
            task.cancel()


async def _settled(request_id: str, work: Callable[[], Awaitable[Answer]]) -> Answer:
    try:
        return await work()
    except Refusal as refusal:
        return _failed(refusal.message, "user")
    except asyncio.CancelledError:
        return _cancelled()
    except Exception as error:  # noqa: BLE001 - a bug must reach the client, not hang it
        _log.error("request %s failed", request_id, exc_info=error)
        return _failed(f"{type(error).__name__}: {error}", "server")


def _cancelled() -> Answer:
    return _failed("the request was cancelled, or its session ended", "user")


def _failed(message: str, category: Literal["user", "server"]) -> Answer:
    return json_answer({"error": message, "category": category})


class Turns:
    """Lets the numbered requests of one model through one at a time, in order, from 1 on.

    The chunks of one forward_backward arrive in any order, and optim_step may overtake them.

    Args:
        gap_s: Seconds after which a request gives up on a predecessor that was never sent (the
            client cancelled it). It fails: to skip the gap would train on the wrong gradients.
    """

    def __init__(self, gap_s: float = GAP_S) -> None:
        self._next = 1
        self._pending: dict[int, asyncio.Event] = {}
        self._over: set[int] = set()
        self._gap_s = gap_s

    def admit(self, number: int) -> bool:
        """Whether `number` is new. A known one is a retry: it must not be carried out again."""
        if number < self._next or number in self._pending or number in self._over:
            return False
        self._pending[number] = asyncio.Event()
        return True

    @asynccontextmanager
    async def turn(self, number: int) -> AsyncIterator[None]:
        """Hold the turn of an admitted `number`."""
        try:
            await self._reach(number)
            yield
        finally:
            del self._pending[number]
            self._over.add(number)
            self._advance()

    async def _reach(self, number: int) -> None:
        while number != self._next:
            expected = self._next
            try:
                async with asyncio.timeout(self._gap_s):
                    await self._pending[number].wait()
            except TimeoutError:
                if expected == self._next and expected not in self._pending:
                    raise Refusal(
                        400,
                        f"request {number} of this model waited {self._gap_s:g} s for request "
                        f"{expected}, which was never sent: create a new training client from "
                        "the last saved state",
                    ) from None

    def _advance(self) -> None:
        while self._next in self._over:
            self._over.remove(self._next)
            self._next += 1
        if self._next in self._pending:
            self._pending[self._next].set()
