"""How bubblewrap is called: a sandbox with its own namespaces, file system and user."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rsigym.local.sandbox import disk
from rsigym.local.sandbox.descriptors import memory_file
from rsigym.local.sandbox.handed import Handed
from rsigym.local.sandbox.host import as_user, substitute_for_root
from rsigym.local.sandbox.interpreter import Interpreter, choose_interpreter
from rsigym.local.sandbox.layout import FOLDERS, Layout
from rsigym.local.sandbox.limits import MIB, Limits
from rsigym.local.sandbox.rootfs import show_host, show_root
from rsigym.local.sandbox.seccomp import seccomp_program
from rsigym.local.sandbox.template import BASE, Template
from rsigym.platform.errors import OperatorError

__all__ = ["Bubblewrap", "find_bubblewrap"]

_SHARED_MEMORY_MB = 64  # Docker's default for /dev/shm


@dataclass(frozen=True)
class Bubblewrap:
    """A bubblewrap that works here.

    Attributes:
        program: Its path.
        version: As it says itself.
        no_nesting: Whether it can forbid user namespaces inside the sandbox (0.8 and later).
        own_disk: Whether it can give a sandbox a disk of its own.
    """

    program: str
    version: str
    no_nesting: bool
    own_disk: bool

    def disk_mb(self, limits: Limits) -> int | None:
        """The size in MiB of a sandbox's own disk; None if its folders are the host's.

        At most half of the sandbox's memory, which it is part of: whoever fills all file systems,
        those kept for a verifier too, leaves the supervisor and a verifier memory to work in.
        """
        if limits.disk_mb is None or not self.own_disk:
            return None
        return min(limits.disk_mb, (limits.memory_mb or sys.maxsize) // 2)

    def command(
        self,
        layout: Layout,
        limits: Limits,
        interpreter: Interpreter,
        template: Template,
        given: Handed,
    ) -> list[str]:
        """The words that run what is appended to them as PID 1 of a sandbox.

        Args:
            layout: Its folders, where they are the host's.
            limits: What it may use.
            interpreter: Shown inside where it is not part of the system.
            template: The system that it sees.
            given: What it is handed as descriptors.
        """
        disk_mb = self.disk_mb(limits)
        words = [self.program, *_namespaces(self.no_nesting)]
        words += [] if disk_mb is None else disk.root(disk_mb)
        words += [*_system(template), *_shared_memory(limits)]
        for path, descriptor in given.files.items():
            words += ["--ro-bind-data", str(descriptor), path]
        words += _folders_of(layout) if disk_mb is None else disk.folders(disk_mb)
        words += ["--symlink", "../tmp", "/var/tmp"]
        if template.root is None:
            words += _installation(interpreter)  # after the folders: it may lie in one of that name
        words += ["--remount-ro", "/dev", "--remount-ro", "/"]
        words += ["--info-fd", str(given.info), *_filtered(given.system_calls)]
        return [*words, "--chdir", "/", "--"]

    def complaint(self, template: Template, check: Sequence[str]) -> str:
        """What is printed last when `check` fails in a template's system; nothing if it works."""
        words = [self.program, *_namespaces(self.no_nesting), *_system(template)]
        return _complaint(words, check)


@cache
def find_bubblewrap() -> Bubblewrap:
    """The bubblewrap of this machine, tried with all that a sandbox asks of it.

    Raises:
        OperatorError: It is missing or forbidden; the message says what to do.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise OperatorError(
            "bubblewrap is not installed, so agents' programs cannot be kept apart from this "
            "machine: install it (apt install bubblewrap), or pass --sandbox process to run "
            "without isolation"
        )
    version = subprocess.run(
        [program, "--version"], check=False, capture_output=True, text=True
    ).stdout
    version = version.strip().removeprefix("bubblewrap ")
    complaint = ""
    for no_nesting, own_disk in ((True, disk.can_be_named()), (True, False), (False, False)):
        complaint = _complaint_here(program, no_nesting, own_disk)
        if complaint == "":
            return Bubblewrap(program, version, no_nesting, own_disk)
    raise OperatorError(
        f"bubblewrap does not work here ({complaint}): {_remedy()}, or pass --sandbox process to "
        "run without isolation"
    )


def _complaint_here(program: str, no_nesting: bool, own_disk: bool) -> str:
    interpreter = choose_interpreter(substitute_for_root())
    words = [program, *_namespaces(no_nesting), *(disk.root(1) if own_disk else [])]
    words += [*_system(BASE), *_installation(interpreter), *(disk.folders(1) if own_disk else [])]
    check = "import ctypes, socket\n" + (disk.CHECK if own_disk else "")
    return _complaint(words, [str(interpreter.path), "-I", "-S", "-c", check])


def _complaint(words: list[str], check: Sequence[str]) -> str:
    try:
        with memory_file(seccomp_program() or b"") as system_calls:
            words += _filtered(system_calls if seccomp_program() else None)
            result = subprocess.run(
                [*as_user(substitute_for_root()), *words, "--", *check],
                check=False,
                capture_output=True,
                text=True,
                timeout=30,
                pass_fds=[system_calls],
            )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
    return lines[-1] if result.returncode else ""


def _remedy() -> str:
    for name, wrong, right in (
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
        ("user/max_user_namespaces", "0", "10000"),
    ):
        setting = Path("/proc/sys") / name
        if setting.exists() and setting.read_text().strip() == wrong:
            return f"allow user namespaces (sysctl -w {name.replace('/', '.')}={right})"
    return (
        "allow user namespaces; in a container, start it with "
        "--security-opt seccomp=unconfined --security-opt systempaths=unconfined"
    )


def _namespaces(no_nesting: bool) -> list[str]:
    words = "--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts "
    words += "--unshare-cgroup-try --as-pid-1 --die-with-parent --new-session --cap-drop ALL "
    words += "--uid 1000 --gid 1000 --hostname sandbox --clearenv"
    return [*words.split(), *(["--disable-userns"] if no_nesting else [])]


def _filtered(system_calls: int | None) -> list[str]:
    return [] if system_calls is None else ["--seccomp", str(system_calls)]


def _folders_of(layout: Layout) -> list[str]:
    """The folders where the host keeps them."""
    words: list[str] = []
    for name in FOLDERS:
        words += ["--bind", str(layout.folder / name), f"/{name}"]
    return words


def _installation(interpreter: Interpreter) -> list[str]:
    prefix = interpreter.prefix
    return [] if prefix is None else ["--ro-bind", str(prefix), str(prefix)]


def _system(template: Template) -> list[str]:
    words = show_host() if template.root is None else show_root(template.root)
    return [*words, *template.binds, "--proc", "/proc", "--dev", "/dev"]


def _shared_memory(limits: Limits) -> list[str]:
    megabytes = min(_SHARED_MEMORY_MB, max(1, (limits.memory_mb or sys.maxsize) // 16))
    return ["--size", str(megabytes * MIB), "--tmpfs", "/dev/shm"]
