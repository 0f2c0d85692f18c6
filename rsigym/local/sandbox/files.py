"""The files and folders of a sandbox: copied across its wall, looked at, changed, opened, watched.

Every path is resolved inside, so that a link in the sandbox leads nowhere on the host.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rsigym.local.sandbox.channel import Channel
from rsigym.local.sandbox.inside.tree import receive_tree, send_tree
from rsigym.local.sandbox.layout import Layout
from rsigym.local.sandbox.limits import MIB, Limits
from rsigym.local.sandbox.runtime import Runtime
from rsigym.local.sandbox.watch import Watch, watch
from rsigym.platform.errors import ServiceFailure

__all__ = ["Entry", "Files"]

STALL_S = 120.0
"""How long the other side of a transfer may say nothing: a program in the sandbox may have stopped
it, and a thread of this process waits."""


@dataclass(frozen=True)
class Entry:
    """What is at a path. A link is told of, not followed.

    Attributes:
        name: The last part of the path.
        path: As programs in the sandbox call it.
        type: What it is; pipes, sockets and devices are `other`.
        size: In bytes.
        mode: The permission bits, 0 to 0o7777.
        modified: In seconds since 1970.
        owner: The user's name as the sandbox knows it, or the number.
        group: Likewise.
        target: Where a link leads in the end, whether there is anything or not.
    """

    name: str
    path: str
    type: Literal["file", "dir", "symlink", "other"]
    size: int
    mode: int
    modified: float
    owner: str
    group: str
    target: str | None


class Files:
    """What a `Sandbox` can do with files and folders.

    Relative paths are below /app. Each method raises `OSError` with the system's own `errno` for
    what the system refuses, and `ServiceFailure` when the sandbox has ended.
    """

    _runtime: Runtime
    _layout: Layout
    _limits: Limits

    async def upload(self, source: Path, target: str) -> None:
        """Copies a host file to the path `target`, or a host folder's content into it.

        Links and special files in `source` are left out. `target` is resolved inside, and what
        has the same name is replaced, so that a link in the sandbox leads nowhere else.

        Raises:
            OSError: `source` is missing, or `target` cannot be written.
            ServiceFailure: The sandbox has ended.
        """

        def give(link: socket.socket) -> list[str]:
            return send_tree(link, str(source), self._layout.rewritten)

        await _transfer(self._runtime.channel, give, path=self._layout.path(target), give=False)

    async def download(self, source: str, target: Path) -> list[str]:
        """Copies a file to the host path `target`, or a folder's content into it.

        Links and special files are left out, never followed, and so is what goes beyond
        `Limits.download_mb` or `Limits.download_files`.

        Returns:
            The first names, relative to `source`, that were left out.

        Raises:
            OSError: `source` is missing, or is a link, a special file, or too large.
            ServiceFailure: The sandbox has ended.
        """
        bounds = (self._limits.download_mb * MIB, self._limits.download_files)

        def take(link: socket.socket) -> list[str]:
            return receive_tree(link, str(target.absolute()), *bounds)

        path = self._layout.path(source)
        left_out = await _transfer(self._runtime.channel, take, path=path, give=True)
        if left_out == [""]:
            raise OSError(errno.EINVAL, "not a regular file, or too large to download", source)
        return left_out

    async def stat(self, path: str) -> Entry:
        """What is at a path."""
        return Entry(*(await self._entries("stat", self._layout.path(path)))["entry"])

    async def list(self, path: str, depth: int = 1) -> list[Entry]:
        """What is in a folder, and in those below it down to `depth` levels, by path.

        Folders below it that cannot be read are as if empty. Links are not followed, but for
        `path` itself.

        Raises:
            OSError: EFBIG, if there are more than 10,000 entries, or 4 MiB of paths; or another.
            ServiceFailure: The sandbox has ended.
        """
        answer = await self._entries("list", self._layout.path(path), depth)
        return [Entry(*fields) for fields in answer["entries"]]

    async def make_dir(self, path: str) -> bool:
        """Makes a folder and those above it; whether it was not there.

        Raises:
            OSError: ENOTDIR, if a file is in the way; or another.
            ServiceFailure: The sandbox has ended.
        """
        return (await self._entries("make_dir", self._layout.path(path)))["made"]

    async def move(self, source: str, target: str) -> None:
        """Gives a file or folder the path `target`, whose parents are made.

        A file that is there is replaced, and so is an empty folder by a folder.
        """
        await self._entries("move", self._layout.path(source), self._layout.path(target))

    async def remove(self, path: str) -> None:
        """Removes a file, a link, or a folder with all that is in it."""
        await self._entries("remove", self._layout.path(path))

    async def open(self, path: str, mode: Literal["r", "w"]) -> int:
        """A descriptor of a regular file, to be read or written without the supervisor.

        It is the file itself and not a copy: nothing on this side bounds its size, which
        `Limits` bounds for programs inside. The caller closes it.

        Args:
            path: Links are followed, inside.
            mode: "w" makes the file and its parents, and empties it.

        Raises:
            OSError: EACCES, if this is neither a regular file nor a folder; EISDIR; or another.
            ServiceFailure: The sandbox has ended.
        """
        path = self._layout.path(path)
        return (await self._runtime.channel.call("open", path=path, mode=mode)).fds[0]

    async def watch(self, path: str, recursive: bool = False) -> Watch:
        """Tells what happens in a folder from now on; see `Watch`.

        Args:
            path: A folder.
            recursive: Whether what happens in all folders below it is told too.

        Raises:
            OSError: It is no folder, or there is more below it than can be watched.
            ServiceFailure: The sandbox has ended.
        """
        return await watch(self._runtime.channel, self._layout.path(path), recursive)

    async def _entries(self, act: str, *arguments: object) -> dict[str, Any]:
        channel = self._runtime.channel
        return (await channel.call("entries", act=act, arguments=arguments)).message


async def _transfer(
    channel: Channel, host_side: Callable[[socket.socket], list[str]], *, path: str, give: bool
) -> list[str]:
    """Runs `host_side` in a thread, and the other side in a process in the sandbox.

    Args:
        channel: The way to the supervisor.
        host_side: Given one end of a socket pair, which it does not close.
        path: As the sandbox knows it.
        give: Whether the sandbox is the side that gives.
    """
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def work() -> list[str]:
        with here:
            here.settimeout(STALL_S)
            return host_side(here)

    try:
        with there:
            await channel.call("transfer", [there.fileno()], path=path, give=give)
    except BaseException:
        here.close()
        raise
    try:
        return await asyncio.to_thread(work)
    except (ConnectionError, TimeoutError) as error:
        what = "stopped" if isinstance(error, TimeoutError) else "killed"
        raise ServiceFailure(
            f"a transfer was cut: its process in the sandbox was {what}", side="sandbox"
        ) from None
    finally:
        with suppress(OSError):
            here.shutdown(socket.SHUT_RDWR)  # ends the thread when this call is cancelled
