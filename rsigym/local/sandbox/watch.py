"""What happens in a folder of a sandbox, as it happens."""

import asyncio
import socket
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, Self

from rsigym.local.sandbox.channel import Channel
from rsigym.local.sandbox.inside.messages import receive
from rsigym.platform.errors import ServiceFailure

__all__ = ["Event", "Watch", "watch"]


@dataclass(frozen=True)
class Event:
    """Something that happened to a file or folder.

    Attributes:
        name: Relative to the watched folder, which is itself "".
        kind: A file that moves is a `rename` of its old name and a `create` of its new one.
    """

    name: str
    kind: Literal["create", "write", "remove", "rename", "chmod"]


class Watch:
    """An iterator of `Event`s, for one reader. Closing or dropping it ends the watch.

    It stops after the `remove` or `rename` of the watched folder itself, and when it is closed.
    With `recursive`, what is found in a folder that has just been made is told as created too.

    Its reader gets an `OSError` of EOVERFLOW if more happened than was read, so that events are
    lost, or of ENOSPC if there are more folders than can be watched; and a `ServiceFailure` when
    the sandbox has ended or all its processes were killed.
    """

    def __init__(self, link: socket.socket):
        """
        Args:
            link: A socket to what watches inside; the watch closes it.
        """
        link.setblocking(False)
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._events = deque[Event]()
        self._over = False

    async def begun(self) -> None:
        """Waits until nothing that happens is missed any more."""
        await self._receive()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            message = None if self._over else await self._receive()
            if message is None:
                await self.close()
                raise StopAsyncIteration
            self._events.extend(Event(*event) for event in message["events"])
            self._over = message["over"]
        return self._events.popleft()

    async def close(self) -> None:
        """Ends it. Idempotent."""
        if self._link.fileno() >= 0:
            self._loop.remove_reader(self._link)
            self._link.close()
        self._events.clear()
        self._arrived.set()

    def __del__(self) -> None:
        self._link.close()

    async def _receive(self) -> dict[str, Any] | None:
        """The next message, or None once this is closed."""
        while self._link.fileno() >= 0:
            try:
                message = receive(self._link)[0]
            except BlockingIOError:
                await self._readable()
                continue
            except ConnectionError:
                message = None
            if message is None:
                raise ServiceFailure("the watch was ended inside the sandbox", side="sandbox")
            if "error" in message:
                raise OSError(*message["error"])
            return message
        return None

    async def _readable(self) -> None:
        self._arrived.clear()
        self._loop.add_reader(self._link, self._arrived.set)
        try:
            await self._arrived.wait()
        finally:
            if self._link.fileno() >= 0:
                self._loop.remove_reader(self._link)


async def watch(channel: Channel, path: str, recursive: bool) -> Watch:
    """See `Files.watch`; the path is as the sandbox knows it."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    watching = Watch(here)
    with there:
        await channel.call("watch", [there.fileno()], path=path, recursive=recursive)
    await watching.begun()
    return watching
