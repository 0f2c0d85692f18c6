"""What becomes of a sandbox whose creation got no answer: it may exist, and nobody knows its id."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence

__all__ = ["reap"]

_LOOK_S = 1.0


async def reap(
    find: Callable[[], Awaitable[Sequence[str]]],
    kill: Callable[[str], Awaitable[object]],
    patience_s: float,
) -> bool:
    """Look for the sandbox until it is found and killed, `patience_s` at most; answers whether.

    A create is not repeated and its result not waited for: it may appear while this looks. What
    it does not see ends by the timeout that it was created with.

    Args:
        find: The ids of what the create has made so far.
    """
    until = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(Exception):  # A server that is out of reach may come back.
            found = await find()
            for sandbox in found:
                await kill(sandbox)
            if found:
                return True
        left = until - time.monotonic()
        if left <= 0:
            return False
        await asyncio.sleep(min(_LOOK_S, left))
