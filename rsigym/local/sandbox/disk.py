"""A sandbox's own disk: a file system of a fixed size in memory, which bubblewrap mounts.

It is the root of the sandbox, shown read-only, and each writable folder is a part of it shown
writable. So all of them share one bound that the kernel keeps, for root and ordinary users alike.
It costs 0.2 ms at the start, is counted by the sandbox's memory cgroup, and is gone with the last
process, however the server ends. What a file system on disk would take instead (project quotas,
loop devices) needs privileges, and a quota that is watched is met too late by whoever writes fast.
"""

import os

from rsigym.local.sandbox.layout import FOLDERS, LOGS
from rsigym.local.sandbox.limits import MIB

__all__ = ["CHECK", "can_be_named", "folders", "root"]

_OF_THE_VERIFIER = ("tests", "logs/verifier")

# A source is looked up in what bubblewrap has moved to /oldroot, beside the /newroot it is making.
# It resolves sources beforehand too, and leaves alone one that is not there and may be missing.
_MADE_ANEW = "/../newroot"

CHECK = """
import os
disk = os.statvfs("/app")
assert disk.f_blocks * disk.f_frsize == 1 << 20, "no disk of its own"
open("/app/check", "w").close()
"""
"""Python that fails unless it runs in a sandbox with a disk of 1 MiB."""


def can_be_named() -> bool:
    """Whether nothing on the host has the name by which bubblewrap is told of the disk."""
    return not os.path.lexists("/newroot")


def root(megabytes: int) -> list[str]:
    """Bubblewrap's words for the disk as the root, before anything is mounted on it."""
    return ["--size", str(megabytes * MIB), "--tmpfs", "/"]


def folders(megabytes: int) -> list[str]:
    """Bubblewrap's words for the writable folders on it, and for those kept for a verifier."""
    words: list[str] = []
    for name in FOLDERS:
        words += ["--perms", "1777" if name == "tmp" else "0755", "--dir", f"/{name}"]
        words += ["--bind-try", f"{_MADE_ANEW}/{name}", f"/{name}"]
    for name in LOGS:
        words += ["--dir", f"/{name}"]
    for name in _OF_THE_VERIFIER:
        words += ["--size", str(max(1, megabytes // 4) * MIB), "--tmpfs", f"/{name}"]
    return words
