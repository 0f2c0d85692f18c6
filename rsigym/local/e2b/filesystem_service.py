"""`filesystem.Filesystem` of one sandbox: stat, list, folders, and both ways to watch."""

import asyncio
import errno
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from e2b.envd.filesystem import filesystem_connect
from e2b.envd.filesystem import filesystem_pb as pb

from rsigym.local.e2b.entries import entry_message
from rsigym.local.e2b.errors import rpc_errors
from rsigym.local.e2b.paths import home_path
from rsigym.local.e2b.watcher import Watcher

if TYPE_CHECKING:
    from rsigym.local.sandbox import Sandbox

__all__ = ["FilesystemService"]


class FilesystemService(filesystem_connect.Filesystem):
    """The files of one sandbox, and its watchers by id."""

    def __init__(self, sandbox: "Sandbox"):
        self._sandbox = sandbox
        self._watchers: dict[str, Watcher] = {}

    async def stat(
        self, request: pb.StatRequest, ctx: RequestContext[pb.StatRequest, pb.StatResponse], /
    ) -> pb.StatResponse:
        return pb.StatResponse(entry=await self._entry(request.path))

    async def list_dir(
        self,
        request: pb.ListDirRequest,
        ctx: RequestContext[pb.ListDirRequest, pb.ListDirResponse],
        /,
    ) -> pb.ListDirResponse:
        with rpc_errors():
            entries = await self._sandbox.list(home_path(request.path), max(1, request.depth))
        return pb.ListDirResponse(entries=[entry_message(entry) for entry in entries])

    async def make_dir(
        self,
        request: pb.MakeDirRequest,
        ctx: RequestContext[pb.MakeDirRequest, pb.MakeDirResponse],
        /,
    ) -> pb.MakeDirResponse:
        with rpc_errors():
            if not await self._sandbox.make_dir(home_path(request.path)):
                raise FileExistsError(errno.EEXIST, "the folder exists already", request.path)
        return pb.MakeDirResponse(entry=await self._entry(request.path))

    async def move(
        self, request: pb.MoveRequest, ctx: RequestContext[pb.MoveRequest, pb.MoveResponse], /
    ) -> pb.MoveResponse:
        with rpc_errors():
            await self._sandbox.move(home_path(request.source), home_path(request.destination))
        return pb.MoveResponse(entry=await self._entry(request.destination))

    async def remove(
        self, request: pb.RemoveRequest, ctx: RequestContext[pb.RemoveRequest, pb.RemoveResponse], /
    ) -> pb.RemoveResponse:
        with rpc_errors():
            await self._sandbox.remove(home_path(request.path))
        return pb.RemoveResponse()

    async def watch_dir(
        self,
        request: pb.WatchDirRequest,
        ctx: RequestContext[pb.WatchDirRequest, pb.WatchDirResponse],
        /,
    ) -> AsyncIterator[pb.WatchDirResponse]:
        watcher = await self._watch(request)
        try:
            async for response in watcher.responses(ctx.timeout_ms):
                yield response
        finally:
            await watcher.close()

    async def create_watcher(
        self,
        request: pb.CreateWatcherRequest,
        ctx: RequestContext[pb.CreateWatcherRequest, pb.CreateWatcherResponse],
        /,
    ) -> pb.CreateWatcherResponse:
        watcher_id = secrets.token_hex(8)
        self._watchers[watcher_id] = await self._watch(request)
        return pb.CreateWatcherResponse(watcher_id=watcher_id)

    async def get_watcher_events(
        self,
        request: pb.GetWatcherEventsRequest,
        ctx: RequestContext[pb.GetWatcherEventsRequest, pb.GetWatcherEventsResponse],
        /,
    ) -> pb.GetWatcherEventsResponse:
        watcher = self._watchers.get(request.watcher_id)
        if watcher is None:
            raise ConnectError(Code.NOT_FOUND, f"watcher {request.watcher_id} not found")
        return pb.GetWatcherEventsResponse(events=watcher.take())

    async def remove_watcher(
        self,
        request: pb.RemoveWatcherRequest,
        ctx: RequestContext[pb.RemoveWatcherRequest, pb.RemoveWatcherResponse],
        /,
    ) -> pb.RemoveWatcherResponse:
        watcher = self._watchers.pop(request.watcher_id, None)
        if watcher is None:
            raise ConnectError(Code.NOT_FOUND, f"watcher {request.watcher_id} not found")
        await watcher.close()
        return pb.RemoveWatcherResponse()

    async def close(self) -> None:
        """Ends all watchers."""
        watchers, self._watchers = self._watchers, {}
        await asyncio.gather(*(watcher.close() for watcher in watchers.values()))

    async def _entry(self, path: str) -> pb.EntryInfo:
        with rpc_errors():
            return entry_message(await self._sandbox.stat(home_path(path)))

    async def _watch(self, request: pb.WatchDirRequest | pb.CreateWatcherRequest) -> Watcher:
        path = home_path(request.path)
        with rpc_errors():
            watch = await self._sandbox.watch(path, recursive=request.recursive)
        return Watcher(self._sandbox, path, watch, describe=request.include_entry)
