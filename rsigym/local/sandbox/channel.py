"""The host's end of a supervisor's channel, on the event loop."""

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rsigym.local.sandbox.inside.messages import receive, send
from rsigym.platform.errors import ServiceFailure

__all__ = ["Answer", "Channel"]


class Answer(NamedTuple):
    """A supervisor's answer; whoever gets it closes its descriptors."""

    message: dict[str, Any]
    fds: list[int]


class Channel:
    """Requests to a supervisor, any number at once; used on the loop that made it."""

    def __init__(self, link: socket.socket, why: Callable[[], str]):
        """
        Args:
            link: One end of a SOCK_SEQPACKET pair; the channel closes it.
            why: Says why the supervisor ended, when it has.
        """
        link.setblocking(False)
        # The kernel then names each sender by its process id on this host.
        link.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._link, self._why = link, why
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._sending = asyncio.Lock()
        self._room = asyncio.Event()
        self._ready: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(link, self._read)

    async def ready(self) -> int:
        """Waits for the supervisor's first word; its process id on this host.

        Raises:
            ServiceFailure: It ended before.
        """
        return await self._ready

    @property
    def open(self) -> bool:
        """Whether the supervisor can still be asked."""
        return self._link.fileno() >= 0

    async def call(self, op: str, fds: Sequence[int] = (), **arguments: Any) -> Answer:
        """Sends a request and waits for its answer. A cancelled `exec` is killed.

        Args:
            op: One of the supervisor's operations.
            fds: What travels beside it; they stay open here.
            arguments: Its JSON-able arguments.

        Raises:
            OSError: The system refused it.
            ServiceFailure: The sandbox has ended.
        """
        request_id = next(self._ids)
        waiting = self._waiting[request_id] = self._loop.create_future()
        try:
            await self._send({"id": request_id, "op": op, **arguments}, fds)
            answer = await waiting
        except asyncio.CancelledError:
            if op == "exec":
                with suppress(ServiceFailure):
                    await self._send({"id": request_id, "op": "kill", "target": request_id}, ())
            raise
        finally:
            del self._waiting[request_id]
        if "error" in answer.message:
            raise OSError(*answer.message["error"])
        return answer

    def close(self) -> None:
        """Ends the supervisor, and with it the sandbox. Idempotent."""
        if self._link.fileno() < 0:
            return
        self._loop.remove_reader(self._link)
        self._loop.remove_writer(self._link)
        self._link.close()
        self._room.set()
        gone = ServiceFailure(f"the sandbox has ended: {self._why()}", side="sandbox")
        for waiting in (self._ready, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(gone)
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # nobody may have waited for it

    async def _send(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        async with self._sending:
            while True:
                try:
                    send(self._link, message, fds)
                    return
                except BlockingIOError:
                    await self._wait_for_room()
                except OSError:
                    self.close()
                    raise ServiceFailure(
                        f"the sandbox has ended: {self._why()}", side="sandbox"
                    ) from None

    async def _wait_for_room(self) -> None:
        """Waits until the supervisor has read on, or the channel is closed."""
        self._room.clear()
        self._loop.add_writer(self._link, self._room.set)
        try:
            await self._room.wait()
        finally:
            if self._link.fileno() >= 0:
                self._loop.remove_writer(self._link)

    def _read(self) -> None:
        try:
            message, fds, sender = receive(self._link)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            message, fds, sender = None, [], 0
        if message is None:
            self.close()
        elif "ready" in message:
            self._ready.set_result(sender)
        elif (waiting := self._waiting.get(message["id"])) is not None and not waiting.done():
            waiting.set_result(Answer(message, fds))
        else:
            for fd in fds:
                os.close(fd)
