"""A cgroup per sandbox where this process may make one: version 1 or 2, as root or delegated."""

import asyncio
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rsigym.local.sandbox.limits import MIB, Limits

__all__ = ["Cgroup", "cgroup_version"]

_REMOVE_TRIES = 50
_FILES = {
    1: {"memory": "memory.limit_in_bytes", "processes": "pids.max"},
    2: {"memory": "memory.max", "processes": "pids.max"},
}


@dataclass(frozen=True)
class Cgroup:
    """The cgroup of one sandbox: one folder in version 2, one per controller in version 1."""

    folders: tuple[Path, ...]

    @classmethod
    def planned(cls, name: str) -> "Cgroup":
        """The cgroup of this name, not made yet; it has no folders where none can be made."""
        return cls(tuple(parent / f"rsigym-{name}" for parent in _parents()))

    def create(self, limits: Limits) -> None:
        """Makes the cgroup and sets its limits.

        Raises:
            OSError: The kernel refused.
        """
        bounds = {
            "memory": None if limits.memory_mb is None else limits.memory_mb * MIB,
            "processes": limits.processes,
        }
        for folder in self.folders:
            folder.mkdir()
            for kind, file in _FILES[cgroup_version() or 2].items():
                if bounds[kind] is not None and (folder / file).exists():
                    (folder / file).write_text(str(bounds[kind]))
            if (folder / "memory.swap.max").exists():
                (folder / "memory.swap.max").write_text("0")

    def add(self, pid: int) -> None:
        """Moves a process in; what it starts from now on is born inside."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    async def remove(self) -> bool:
        """Removes the cgroup as its last process goes; whether it is gone."""
        for _ in range(_REMOVE_TRIES):
            if self.try_remove():
                return True
            await asyncio.sleep(0.01)
        return False

    def try_remove(self) -> bool:
        """Removes what is empty of it; whether all of it is gone."""
        for folder in self.folders:
            with suppress(OSError):
                folder.rmdir()
        return not any(folder.exists() for folder in self.folders)


def cgroup_version() -> int | None:
    """1 or 2, or None where no cgroup with a memory and a process limit can be made."""
    parents = _parents()
    return None if not parents else 2 if (parents[0] / "cgroup.controllers").exists() else 1


@cache
def _parents() -> tuple[Path, ...]:
    """The folders below which a sandbox's cgroup is made. Tried once, by making one."""
    for parents in (_version_2(), _version_1()):
        trial = Cgroup(tuple(parent / f"rsigym-trial-{uuid.uuid4().hex[:8]}" for parent in parents))
        if parents and _works(trial):
            return parents
    return ()


def _works(trial: Cgroup) -> bool:
    """Whether a cgroup can be made and have a process moved into it."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        try:
            for folder in trial.folders:
                folder.mkdir()
            trial.add(process.pid)
        except OSError:
            return False
        finally:
            process.kill()
            process.wait()
            trial.try_remove()
    return True


def _version_2() -> tuple[Path, ...]:
    """The nearest cgroup above this process that is ours and hands its controllers down."""
    for mount, root, _ in _mounts("cgroup2"):
        own = _own_folder(mount, root, "")
        for folder in (own, *own.parents):
            if not folder.is_relative_to(mount) or not os.access(folder / "cgroup.procs", os.W_OK):
                break
            handed_down = (folder / "cgroup.subtree_control").read_text().split()
            if {"memory", "pids"} <= set(handed_down):
                return (folder,)
    return ()


def _version_1() -> tuple[Path, ...]:
    """This process's own cgroups of the two controllers."""
    found = {
        controller: _own_folder(mount, root, controller)
        for mount, root, options in _mounts("cgroup")
        for controller in ("memory", "pids")
        if controller in options
    }
    return tuple(found.values()) if len(found) == 2 else ()


def _mounts(kind: str) -> Iterator[tuple[Path, str, set[str]]]:
    """(mount point, root within the hierarchy, options) of the mounts of this file system type."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        file_system, _, options = right.split(" ", 2)
        if file_system == kind:
            yield Path(left.split()[4]), left.split()[3], set(options.split(","))


def _own_folder(mount: Path, root: str, controller: str) -> Path:
    """Where this process's cgroup of a hierarchy is below its mount point."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            own = mount / os.path.relpath(path, root)
            return own if own.is_dir() and ".." not in own.parts else mount
    return mount
