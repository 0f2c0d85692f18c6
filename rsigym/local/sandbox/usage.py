"""What a sandbox takes at the moment."""

from contextlib import suppress
from dataclasses import dataclass

from rsigym.local.sandbox.layout import FOLDERS
from rsigym.local.sandbox.runtime import Runtime

__all__ = ["Usage", "measure_usage"]

_CHARGED = ("memory.current", "memory.usage_in_bytes")  # version 2, version 1


@dataclass(frozen=True)
class Usage:
    """What all processes and files of a sandbox take, its supervisor's among them.

    Attributes:
        cpu_s: CPU seconds since its start.
        memory_bytes: What its cgroup is charged with, cached files and files in memory included;
            without a cgroup, the resident memory of all its processes.
        disk_bytes: Allocated in its own folders.
        processes: Running now, but for the supervisor.
    """

    cpu_s: float
    memory_bytes: int
    disk_bytes: int
    processes: int


async def measure_usage(runtime: Runtime) -> Usage:
    """See `Sandbox.usage`."""
    folders = [runtime.layout.path(f"/{name}") for name in FOLDERS]
    found = (await runtime.channel.call("usage", folders=folders)).message
    memory = _charged_memory(runtime)
    return Usage(
        found["cpu_s"],
        found["memory_bytes"] if memory is None else memory,
        found["disk_bytes"],
        found["processes"],
    )


def _charged_memory(runtime: Runtime) -> int | None:
    for folder in runtime.cgroup.folders:
        for name in _CHARGED:
            with suppress(OSError):
                return int((folder / name).read_text())
    return None
