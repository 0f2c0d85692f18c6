"""Sandboxes that are started before they are asked for."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from rsigym.local.sandbox.sandbox import Sandbox
from rsigym.platform.errors import ServiceFailure

__all__ = ["Warm"]


class Warm:
    """A few started sandboxes of one kind; used on the loop that it is made on.

    They are started one after the other, and none while a caller waits for one of its own: what
    is kept for later takes nothing from what is needed now.
    """

    def __init__(self, make: Callable[[], Sandbox], size: int):
        """
        Args:
            make: A new sandbox, not started.
            size: How many to keep; 0 keeps none.
        """
        self._make, self._size = make, size
        self._ready: deque[Sandbox] = deque()
        self._callers_waiting = 0
        self._closed = False
        self._filling = asyncio.create_task(self._fill())

    async def take(self) -> Sandbox:
        """A started sandbox, the caller's from now on: at once, or as fast as one can be started.

        Raises:
            OperatorError, ServiceFailure: None is ready, and one could not be started.
        """
        if self._closed:
            raise ServiceFailure("no more sandboxes are started: this is closing", side="sandbox")
        self._callers_waiting += 1
        try:
            while self._ready:
                sandbox = self._ready.popleft()
                if sandbox.alive:
                    return sandbox
                await sandbox.close()
            sandbox = self._make()
            await sandbox.start()
            return sandbox
        finally:
            self._callers_waiting -= 1
            if self._filling.done() and not self._closed:
                self._filling = asyncio.create_task(self._fill())

    async def close(self) -> None:
        """Closes all that nobody has taken. Idempotent."""
        self._closed = True
        self._filling.cancel()
        await asyncio.wait({self._filling})
        ready, self._ready = self._ready, deque()
        await asyncio.gather(*(sandbox.close() for sandbox in ready))

    async def _fill(self) -> None:
        with suppress(Exception):  # the next caller starts one, and is told what is wrong
            while len(self._ready) < self._size and not self._callers_waiting:
                sandbox = self._make()
                await sandbox.start()
                self._ready.append(sandbox)
