"""What the sandbox tests share: running on a loop, opening sandboxes, counting processes."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rsigym.local.sandbox import Isolation, Limits, Sandbox


def on_loop[**P](test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs an async test on a loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def opened(
    folder: Path, isolation: Isolation, limits: Limits | None = None
) -> AsyncIterator[Sandbox]:
    """A started sandbox, closed at the end."""
    async with Sandbox(folder / "sandbox", isolation=isolation, limits=limits) as sandbox:
        yield sandbox


async def output(sandbox: Sandbox, command: str) -> str:
    """What a command that has to succeed prints, without the last line's end."""
    result = await sandbox.exec(command)
    assert result.exit_code == 0, result
    return result.stdout.decode().rstrip("\n")


def processes_with(mark: str) -> list[int]:
    """The processes of this machine that have `mark` among their arguments."""
    found: list[int] = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(entry))
    return found


async def appeared(mark: str, number: int = 1) -> bool:
    """Waits until so many processes have `mark` among their arguments; False if they never do."""
    return await comes_true(lambda: len(processes_with(mark)) >= number)


async def gone(mark: str) -> bool:
    """Waits until no process has `mark` among its arguments; False if that never happens."""
    return await comes_true(lambda: not processes_with(mark))


async def comes_true(condition: Callable[[], bool]) -> bool:
    """Waits until `condition` holds; False if it never does."""
    for _ in range(1000):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False
