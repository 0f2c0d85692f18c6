"""What a trial left for the research agent to read: its files, by name and in pieces.

The trial's folder was filled from inside a sandbox. A link that a harness planted there leads
nowhere, and what the platform itself keeps beside it is not shown.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rsigym.platform.errors import BadCall

__all__ = ["TrialFile", "TrialText", "list_trial_files", "read_trial_file"]

_READABLE = ("agent", "verifier", "artifacts")
"""The rest of a trial's folder names paths of this machine."""

_MAX_FILES = 1000


@dataclass(frozen=True)
class TrialFile:
    """A file that a trial left: its name in the trial's folder, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class TrialText:
    """A piece of a file, and whether there is more after it."""

    text: str
    more: bool


def list_trial_files(folder: Path) -> list[TrialFile]:
    """What the agent, the verifier and the task left, by name; the first 1,000 files."""
    return list(islice(_files(folder), _MAX_FILES))


def _files(folder: Path) -> Iterator[TrialFile]:
    for top in _READABLE:
        for parent, folders, names in os.walk(folder / top):
            folders.sort()
            for name in sorted(names):
                path = Path(parent, name)
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield TrialFile(path.relative_to(folder).as_posix(), status.st_size)


def read_trial_file(folder: Path, name: str, offset: int = 0, limit: int = 16_384) -> TrialText:
    """Read at most `limit` characters of a file, from a character offset.

    Raises:
        BadCall: There is no such file among those listed.
    """
    names = [file.name for file in list_trial_files(folder)]
    if name not in names:
        raise BadCall(f"the trial has no file {name!r}", files=[*names[:50]])
    with (folder / name).open(encoding="utf-8", errors="replace", newline="") as file:
        while offset > 0 and (skipped := file.read(min(offset, 2**20))):
            offset -= len(skipped)
        text = file.read(limit)
        return TrialText(text, bool(file.read(1)))
