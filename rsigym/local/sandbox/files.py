"""Files and folders between the host and a sandbox: the host's side runs in a thread."""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rsigym.local.sandbox.channel import Channel
from rsigym.local.sandbox.inside.tree import receive_tree, send_tree
from rsigym.local.sandbox.layout import Layout
from rsigym.local.sandbox.limits import MIB, Limits
from rsigym.platform.errors import ServiceFailure

__all__ = ["download", "upload"]


async def upload(channel: Channel, layout: Layout, source: Path, target: str) -> None:
    """See `Sandbox.upload`."""

    def give(link: socket.socket) -> list[str]:
        return send_tree(link, str(source), layout.rewritten)

    await _transfer(channel, give, path=layout.path(target), give=False)


async def download(
    channel: Channel, layout: Layout, limits: Limits, source: str, target: Path
) -> list[str]:
    """See `Sandbox.download`."""
    bounds = (limits.download_mb * MIB, limits.download_files)

    def take(link: socket.socket) -> list[str]:
        return receive_tree(link, str(target.absolute()), *bounds)

    left_out = await _transfer(channel, take, path=layout.path(source), give=True)
    if left_out == [""]:
        raise OSError(errno.EINVAL, "not a regular file, or too large to download", source)
    return left_out


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
            return host_side(here)

    try:
        with there:
            await channel.call("transfer", [there.fileno()], path=path, give=give)
    except BaseException:
        here.close()
        raise
    try:
        return await asyncio.to_thread(work)
    except ConnectionError:
        raise ServiceFailure(
            "a transfer was cut: its process in the sandbox was killed", side="sandbox"
        ) from None
    finally:
        with suppress(OSError):
            here.shutdown(socket.SHUT_RDWR)  # ends the thread when this call is cancelled
