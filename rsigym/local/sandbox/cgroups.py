"""A cgroup per sandbox where this process may make one: version 1 or 2, as root or delegated."""

import asyncio
import errno
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rsigym.local.sandbox.limits import MIB, Limits

__all__ = ["Cgroup", "cgroup_bounds_cpus", "cgroup_version"]

_REMOVE_TRIES = 50
_PERIOD_US = 100_000  # the kernel's own default: how often the share of time is dealt out anew
_NEEDED = {"memory", "pids"}


@dataclass(frozen=True)
class Cgroup:
    """The cgroup of one sandbox: one folder in version 2, one per controller in version 1."""

    folders: tuple[Path, ...]

    @classmethod
    def planned(cls, name: str, limits: Limits) -> "Cgroup":
        """The cgroup of this name, not made yet; it has no folders where none can be made."""
        parents = _parents()
        if parents and limits.cpus is not None:  # otherwise one less: moving in takes 3 ms each
            parents += _version_1_cpu()
        return cls(tuple(dict.fromkeys(parent / f"rsigym-{name}" for parent in parents)))

    def create(self, limits: Limits) -> None:
        """Makes the cgroup and sets its limits.

        Raises:
            OSError: The kernel refused.
        """
        bounds = _bounds(limits)
        for folder in self.folders:
            folder.mkdir()
            for file, bound in bounds.items():
                if (folder / file).exists():
                    _write(folder / file, bound)

    def add(self, pid: int) -> None:
        """Moves a process in; what it starts from now on is born inside. Takes milliseconds.

        Raises:
            ProcessLookupError: It has ended.
        """
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def kill(self) -> None:
        """Kills every process in it."""
        for folder in self.folders:
            with suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)

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


def cgroup_bounds_cpus() -> bool:
    """Whether a sandbox's cgroup can also bound its share of the processors."""
    if cgroup_version() == 2:
        return "cpu" in (_parents()[0] / "cgroup.subtree_control").read_text().split()
    return bool(_parents() and _version_1_cpu())


def _bounds(limits: Limits) -> dict[str, int | str]:
    """What to write, by file of either version, in this order: memory goes before its swap."""
    bounds: dict[str, int | str] = {}
    if limits.memory_mb is not None:
        memory = limits.memory_mb * MIB
        bounds |= {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory}
        bounds |= {"memory.max": memory, "memory.swap.max": 0}
    if limits.processes is not None:
        bounds["pids.max"] = limits.processes
    if limits.cpus is not None:
        quota = max(1000, round(limits.cpus * _PERIOD_US))  # the kernel takes no less
        bounds |= {"cpu.cfs_quota_us": quota, "cpu.max": f"{quota} {_PERIOD_US}"}
    return bounds


def _write(file: Path, bound: int | str) -> None:
    try:
        file.write_text(str(bound))
    except OSError as error:
        # Version 1 refuses more time than the cgroup above has, and that one's bound then holds.
        if (file.name, error.errno) != ("cpu.cfs_quota_us", errno.EINVAL):
            raise


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
            if set(handed_down) >= _NEEDED:
                return (folder,)
    return ()


def _version_1() -> tuple[Path, ...]:
    """This process's own cgroups of the two controllers that a sandbox needs."""
    found = _version_1_controllers()
    return tuple(found[each] for each in sorted(_NEEDED)) if found.keys() >= _NEEDED else ()


def _version_1_cpu() -> tuple[Path, ...]:
    folder = _version_1_controllers().get("cpu")
    return () if folder is None or not os.access(folder, os.W_OK) else (folder,)


@cache
def _version_1_controllers() -> dict[str, Path]:
    return {
        controller: _own_folder(mount, root, controller)
        for mount, root, options in _mounts("cgroup")
        for controller in sorted(_NEEDED | {"cpu"})
        if controller in options
    }


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
