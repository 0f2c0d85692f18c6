"""A watched folder, for a stream or for a client that comes back to ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b.envd.filesystem import filesystem_pb as pb
from protobuf import Oneof

from rsigym.local.e2b.entries import entry_message
from rsigym.local.e2b.errors import rpc_errors
from rsigym.local.e2b.running import KEEPALIVE_S

if TYPE_CHECKING:
    from rsigym.local.sandbox import Sandbox
    from rsigym.local.sandbox.watch import Event, Watch

__all__ = ["Watcher"]

_MOST_EVENTS = 10_000
_KINDS = {
    "create": pb.EventType.CREATE,
    "write": pb.EventType.WRITE,
    "remove": pb.EventType.REMOVE,
    "rename": pb.EventType.RENAME,
    "chmod": pb.EventType.CHMOD,
}


class Watcher:
    """Collects what happens in a folder; at most 10,000 events that nobody has asked for yet."""

    def __init__(self, sandbox: "Sandbox", path: str, watch: "Watch", *, describe: bool):
        """
        Args:
            sandbox: Where the folder is.
            path: The folder.
            watch: Already on, so that nothing is missed; closed by `close`.
            describe: Whether events say what the file is that they are about.
        """
        self._sandbox, self._path, self._watch, self._describe = sandbox, path, watch, describe
        self._events: list[pb.FilesystemEvent] = []
        self._news = asyncio.Event()
        self._end: ConnectError | None = None
        self._task = asyncio.create_task(self._collect())

    def take(self) -> list[pb.FilesystemEvent]:
        """What has happened since the last time.

        Raises:
            ConnectError: Nothing more will come, and why.
        """
        if self._end is not None and not self._events:
            raise self._end
        events, self._events = self._events, []
        if self._end is None:
            self._news.clear()
        return events

    async def responses(self, timeout_ms: float | None) -> AsyncIterator[pb.WatchDirResponse]:
        """A stream of events.

        Args:
            timeout_ms: The time after which it ends.

        Raises:
            ConnectError: Its time is up, or nothing more will come.
        """
        yield pb.WatchDirResponse(event=Oneof("start", pb.WatchDirResponse.StartEvent()))
        loop = asyncio.get_running_loop()
        until = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        while True:
            left_s = KEEPALIVE_S if until is None else min(KEEPALIVE_S, until - loop.time())
            try:
                await asyncio.wait_for(self._news.wait(), left_s)
            except TimeoutError:
                if until is not None and loop.time() >= until:
                    raise ConnectError(
                        Code.DEADLINE_EXCEEDED, "the time of this stream is up"
                    ) from None
                alive = pb.WatchDirResponse.KeepAlive()
                yield pb.WatchDirResponse(event=Oneof("keepalive", alive))
                continue
            for event in self.take():
                yield pb.WatchDirResponse(event=Oneof("filesystem", event))

    async def close(self) -> None:
        """Stops watching."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._watch.close()

    async def _collect(self) -> None:
        try:
            with rpc_errors():
                async for event in self._watch:
                    message = await self._message(event)  # what is taken meanwhile is another list
                    self._events.append(message)
                    del self._events[:-_MOST_EVENTS]
                    self._news.set()
            self._end = ConnectError(Code.NOT_FOUND, f"{self._path} is not there any more")
        except ConnectError as error:
            self._end = error
        self._news.set()

    async def _message(self, event: "Event") -> pb.FilesystemEvent:
        entry = None
        if self._describe:
            with suppress(OSError):  # it may be gone by now
                entry = entry_message(await self._sandbox.stat(f"{self._path}/{event.name}"))
        return pb.FilesystemEvent(name=event.name, type=_KINDS[event.kind], entry=entry)
