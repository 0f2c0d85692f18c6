"""The folders of a sandbox as one archive, made and unpacked inside sandboxes.

The host keeps the archive and does not look into it: what a sandbox's programs have made of their
folders, links to anywhere included, is looked at in sandboxes only.
"""

import asyncio
import json
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from rsigym.local.sandbox.commands import ExecResult
from rsigym.local.sandbox.descriptors import unnamed_copy
from rsigym.local.sandbox.handed import SUPERVISOR
from rsigym.local.sandbox.layout import FOLDERS, HOME
from rsigym.platform.errors import ServiceFailure

__all__ = ["fill", "first_files", "put_back", "save"]

type Execute = Callable[[str, int], Awaitable[ExecResult]]
"""Runs a command in a sandbox with a descriptor as its input."""

_SAVE = """
import sys, tarfile
with open(0, "wb", closefd=False) as target, tarfile.open(fileobj=target, mode="w|") as tar:
    for name in sys.argv[1:]:
        tar.add("/" + name, name)
"""
_FILL = """
import tarfile
with open(0, "rb", closefd=False) as source, tarfile.open(fileobj=source, mode="r|") as tar:
    tar.extraction_filter = lambda member, path: member
    tar.extractall("/")
"""
_PUT_BACK = f"""
import sys
sys.path.insert(0, {SUPERVISOR!r})
from inside.put_back import main
main()
"""


async def save(execute: Execute, python: Sequence[str], target: Path) -> None:
    """Writes the folders of a sandbox in which nothing runs to the new file `target`.

    Args:
        execute: Runs a command in it.
        python: The words that run Python in it.
        target: On the host.

    Raises:
        ServiceFailure: They cannot be read, or are larger than a file in it may be.
    """
    # It has no name while the sandbox can write to it.
    with tempfile.TemporaryFile(dir=target.parent) as made:
        command = shlex.join([*python, "-I", "-S", "-c", _SAVE, *FOLDERS])
        _check(await execute(command, made.fileno()), "saved")
        await asyncio.to_thread(_copy, made, target)


async def fill(execute: Execute, python: Sequence[str], archive: Path) -> None:
    """Gives a sandbox that has just started the files of an archive.

    Raises:
        ServiceFailure: There is no room for them.
    """
    result = await _read(execute, [*python, "-I", "-S", "-c", _FILL], archive)
    _check(result, "given their first content")


async def put_back(
    execute: Execute, python: Sequence[str], archive: Path, names: Sequence[str]
) -> list[str]:
    """Makes `names` in the home folder what the archive has there, while nothing else runs.

    Returns:
        The first paths that had been changed.

    Raises:
        ServiceFailure: It cannot be done.
    """
    result = await _read(execute, [*python, "-I", "-S", "-c", _PUT_BACK, HOME, *names], archive)
    _check(result, "put back")
    return json.loads(result.stdout)


def first_files(root: Path, target: Path) -> None:
    """Writes what a root file system has in the standard folders to the new file `target`."""
    with tarfile.open(target, "w") as tar:
        for name in FOLDERS:
            folder = root / name
            if folder.is_dir() and folder.resolve() == root.resolve() / name:
                tar.add(folder, name, filter=_writable)


async def _read(execute: Execute, words: Sequence[str], archive: Path) -> ExecResult:
    """Runs a command whose input is the archive."""
    with ExitStack() as stack:
        copy = unnamed_copy(archive, archive.parent)
        source = await asyncio.to_thread(stack.enter_context, copy)
        return await execute(shlex.join(words), source)


def _writable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The user of a sandbox owns it and may do what the owner may, or may see to that."""
    member.mode |= 0o700 if member.isdir() else 0
    return member


def _check(result: ExecResult, done: str) -> None:
    if result.exit_code != 0:
        lines = result.stderr.decode(errors="replace").strip().splitlines() or ["it was killed"]
        raise ServiceFailure(
            f"the folders of a sandbox cannot be {done}: {lines[-1]}", side="sandbox"
        )


def _copy(made: IO[bytes], target: Path) -> None:
    made.seek(0)
    with target.open("xb") as file:
        shutil.copyfileobj(made, file, 1 << 20)
