"""Looking names up for the programs of a sandbox."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from ipaddress import ip_address

from rsigym.local.sandbox.addresses import Address, canonical

__all__ = ["Lookups", "Resolve", "system_resolver"]

type Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a name, the best first; raises OSError if it has none."""

_THREADS = 16
_AT_ONCE = 4


async def system_resolver(name: str) -> list[str]:
    """What this machine's own resolver answers."""
    loop = asyncio.get_running_loop()
    ask = partial(socket.getaddrinfo, name, None, type=socket.SOCK_STREAM)
    found = await loop.run_in_executor(_pool(), ask)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class Lookups:
    """The lookups of one sandbox; a few at once, so that slow names leave neighbours theirs."""

    def __init__(self, resolve: Resolve):
        self._resolve = resolve
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def addresses(self, name: str) -> list[Address]:
        """All addresses of `name`. A lookup that nobody waits for any more keeps its place.

        Raises:
            OSError: There is none.
        """
        await self._room.acquire()
        lookup = asyncio.ensure_future(self._resolve(name))
        lookup.add_done_callback(self._ended)
        return [canonical(ip_address(text)) for text in await asyncio.shield(lookup)]

    def _ended(self, lookup: asyncio.Future[Sequence[str]]) -> None:
        self._room.release()
        if not lookup.cancelled():
            lookup.exception()  # its client may have left


@cache
def _pool() -> ThreadPoolExecutor:
    # Not the loop's own few threads, which files and folders go through.
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="lookup")
