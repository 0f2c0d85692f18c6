"""What one sandbox may use, and how that becomes rlimits."""

from dataclasses import dataclass

__all__ = ["Limits"]

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds on a sandbox; None leaves a resource unbounded.

    Attributes:
        memory_mb: MiB of memory: of the whole sandbox with the files it keeps there where a cgroup
            can be made, else of the private writable memory of each process.
        processes: Processes and threads at once.
        cpus: Cores' worth of time, as 0.5 is half of one core's: where a cgroup can be made.
        disk_mb: MiB of all files together, which are then kept in memory and take at most half of
            it, and a quarter as much each for /tests and /logs/verifier, so that whoever fills the
            rest leaves a verifier room. None keeps them on the host's disk, unbounded. Plain
            processes have them there too.
        file_mb: MiB of any one file that a command writes.
        cpu_s: CPU seconds of any one process.
        output_bytes: Bytes kept of each of a command's two outputs.
        download_mb: MiB that one download may bring to the host.
        download_files: Files and folders that one download may bring to the host.
    """

    memory_mb: int | None = 2048
    processes: int | None = 512
    cpus: float | None = None
    disk_mb: int | None = 1024
    file_mb: int | None = 1024
    cpu_s: int | None = None
    output_bytes: int = 1 * MIB
    download_mb: int = 1024
    download_files: int = 20_000

    def rlimits(self, *, memory: bool, processes: bool) -> dict[str, int]:
        """The rlimits of each command, by the names of the `resource` module.

        Memory is bounded by RLIMIT_DATA: RLIMIT_AS would also count address space that is only
        reserved, of which Go, Java, Node and sanitizers take far more than they ever use.

        Args:
            memory: Whether memory is left to rlimits, because no cgroup bounds it.
            processes: The same for processes.
        """
        wanted = {
            "RLIMIT_CORE": 0,
            "RLIMIT_FSIZE": None if self.file_mb is None else self.file_mb * MIB,
            "RLIMIT_CPU": self.cpu_s,
            "RLIMIT_DATA": self.memory_mb * MIB if memory and self.memory_mb is not None else None,
            "RLIMIT_NPROC": self.processes if processes else None,
        }
        return {name: value for name, value in wanted.items() if value is not None}
