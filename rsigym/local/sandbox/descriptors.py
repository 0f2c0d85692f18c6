"""Descriptors that may be handed to programs in a sandbox.

A program can open anew what it was handed, through /proc/self/fd and with more rights than the
descriptor has. So it is never handed a file of the host, only copies that have no name.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["memory_file", "unnamed_copy"]


@contextmanager
def memory_file(content: bytes = b"") -> Iterator[int]:
    """A file in memory, open at its start."""
    fd = os.memfd_create("sandbox")
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def unnamed_copy(source: Path, folder: Path) -> Iterator[int]:
    """A copy of a file, open at its start, on the file system of `folder`."""
    with open(source, "rb") as original, tempfile.TemporaryFile(dir=folder) as copy:
        shutil.copyfileobj(original, copy)
        copy.seek(0)
        os.fchmod(copy.fileno(), 0o666)  # for the sandbox's user, who may not be this one
        yield copy.fileno()
