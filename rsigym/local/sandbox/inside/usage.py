"""What a sandbox's processes and files take at the moment."""

from __future__ import annotations

import os
import sys

from .entries import walk
from .processes import descendants

TYPE_CHECKING = False  # `typing` itself would be a tenth of the start of a sandbox
if TYPE_CHECKING:
    from typing import Any

_UTIME, _STIME, _CUTIME, _CSTIME, _RSS = 11, 12, 13, 14, 21  # of /proc/PID/stat, from `state` on


def usage(supervisor: int, folders: list[str]) -> dict[str, Any]:
    """`cpu_s`, `memory_bytes` and `disk_bytes` of the sandbox, and its `processes`.

    The supervisor inherits all orphans, so the time of what has ended is in what lives.
    """
    ticks = pages = 0
    below = [pid for pid in descendants(supervisor) if pid != os.getpid()]
    for pid in (supervisor, *below):
        fields = _stat(pid)
        if fields:
            ticks += sum(int(fields[n]) for n in (_UTIME, _STIME, _CUTIME, _CSTIME))
            pages += int(fields[_RSS])
    return {
        "cpu_s": ticks / os.sysconf("SC_CLK_TCK"),
        "memory_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        "disk_bytes": sum(map(_disk_bytes, folders)),
        "processes": len(below),
    }


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _disk_bytes(folder: str) -> int:
    """As much as is allocated, and a file of several names once."""
    if os.path.islink(folder):
        return 0
    total = 0
    seen: set[tuple[int, int]] = set()
    for _, _, info in walk(folder, sys.maxsize):
        key = (info.st_dev, info.st_ino)
        if key not in seen:
            total += info.st_blocks * 512
        if info.st_nlink > 1:
            seen.add(key)
    return total
