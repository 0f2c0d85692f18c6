"""The host's end of a supervisor's channel, on the event loop."""

import asyncio
import errno
import itertools
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rsigym.local.sandbox.inside.messages import receive, send
from rsigym.platform.errors import ServiceFailure

__all__ = ["Answer", "Channel"]


_OUT_OF_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS}
"""What this machine lacks for the moment, which is no fault of the sandbox and does not end it."""


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
        self._gone: asyncio.Future[str] = self._loop.create_future()
        self._posts: set[asyncio.Task[None]] = set()
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
        return not self._gone.done()

    async def gone(self) -> str:
        """Waits until the sandbox has ended; why it did."""
        return await asyncio.shield(self._gone)

    def expect(self) -> tuple[int, asyncio.Future[Answer]]:
        """An id for a request, and what will be the message that bears it.

        The future fails with `ServiceFailure` when the sandbox ends first.
        """
        message_id = next(self._ids)
        expected = self._waiting[message_id] = self._loop.create_future()
        if not self.open:
            self._fail(expected)
        return message_id, expected

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
        request_id, answered = self.expect()
        try:
            await self._send({"id": request_id, "op": op, **arguments}, fds)
            answer = await answered
        except asyncio.CancelledError:
            if answered.done() and not answered.cancelled() and not answered.exception():
                _close_all(answered.result().fds)
            if op == "exec":
                self.post("kill", target=request_id)
            raise
        finally:
            self._waiting.pop(request_id, None)
        if "error" in answer.message:
            raise OSError(*answer.message["error"])
        return answer

    def post(self, op: str, **arguments: Any) -> None:
        """Sends a request whose answer nobody needs; from any thread."""
        with suppress(RuntimeError):  # the loop is closed: the sandbox goes with it
            self._loop.call_soon_threadsafe(self._post, {"op": op, **arguments})

    def close(self) -> None:
        """Ends the supervisor, and with it the sandbox. Idempotent."""
        if self._link.fileno() < 0:
            return
        self._loop.remove_reader(self._link)
        self._loop.remove_writer(self._link)
        self._link.close()
        self._room.set()
        self._gone.set_result(self._why())
        for waiting in (self._ready, *self._waiting.values()):
            if not waiting.done():
                self._fail(waiting)
        self._waiting.clear()

    def _failure(self) -> ServiceFailure:
        return ServiceFailure(f"the sandbox has ended: {self._gone.result()}", side="sandbox")

    def _fail(self, waiting: asyncio.Future[Any]) -> None:
        waiting.set_exception(self._failure())
        waiting.exception()  # nobody may wait for it

    def _post(self, message: dict[str, Any]) -> None:
        async def send() -> None:
            with suppress(OSError, ServiceFailure):
                await self._send({"id": next(self._ids), **message}, ())

        task = self._loop.create_task(send())
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _send(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        async with self._sending:
            while True:
                try:
                    send(self._link, message, fds)
                    return
                except BlockingIOError:
                    await self._wait_for_room()
                except OSError as error:
                    if self.open and error.errno in _OUT_OF_ROOM:
                        raise
                    self.close()
                    raise self._failure() from None

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
            if not self._ready.done():  # a start that was given up is waited for by nobody
                self._ready.set_result(sender)
        elif (waiting := self._waiting.pop(message["id"], None)) is not None and not waiting.done():
            waiting.set_result(Answer(message, fds))
        else:
            _close_all(fds)


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
