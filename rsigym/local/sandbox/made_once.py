"""Files and folders that are made once, by whoever needs them first, and are whole or not there."""

import asyncio
import fcntl
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from rsigym.local.sandbox.host import may_enter, substitute_for_root
from rsigym.local.sandbox.owners import remove_folder
from rsigym.platform.errors import OperatorError
from rsigym.platform.home import home

__all__ = ["made_once", "readable_store"]

_POLL_S = 0.05


async def made_once(target: Path, make: Callable[[Path], Awaitable[None]]) -> Path:
    """Makes `target` unless it is there; others who want it wait, in any process.

    Args:
        target: A file or folder.
        make: Given a path beside it where there is nothing, makes it there.
    """
    if not _is_there(target):
        async with _locked(target):
            if not _is_there(target):
                await _make(target, make)
    return target


async def _make(target: Path, make: Callable[[Path], Awaitable[None]]) -> None:
    for left in _parts(target):  # by processes that were killed
        await asyncio.to_thread(remove_folder, left)
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        await make(part)
        os.rename(part, target)
    finally:
        await asyncio.to_thread(remove_folder, part)


def readable_store(name: str) -> Path:
    """The folder `name` of `home()`, or one that the sandboxes' user may enter too.

    Raises:
        OperatorError: That one belongs to somebody else.
    """
    own = home() / name
    if may_enter(own / "entry", substitute_for_root()):
        return own
    shared = Path("/var/tmp") / f"rsigym-{name}-{os.geteuid()}"
    shared.mkdir(mode=0o755, exist_ok=True)
    found = shared.lstat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022 or shared.is_symlink():
        raise OperatorError(
            f"{shared} was not made by this user: remove it, or set RSIGYM_HOME to a folder that "
            "every user may enter"
        )
    return shared


@asynccontextmanager
async def _locked(target: Path) -> AsyncIterator[None]:
    with _lock_file(target) as file:
        # Asked again and again: a thread that waits would be one fewer for whoever makes it.
        while not _lock(file):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        yield


def _is_there(target: Path) -> bool:
    return target.exists()


def _parts(target: Path) -> list[Path]:
    return list(target.parent.glob(f"{target.name}.*.part"))


def _lock_file(target: Path) -> BinaryIO:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.with_name(f"{target.name}.lock").open("ab")


def _lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
