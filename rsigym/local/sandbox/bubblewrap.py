"""How bubblewrap is called: a sandbox with its own namespaces, file system and user."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rsigym.local.sandbox.host import substitute_for_root
from rsigym.local.sandbox.interpreter import Interpreter, choose_interpreter
from rsigym.local.sandbox.layout import FOLDERS, Layout
from rsigym.local.sandbox.rootfs import show_root
from rsigym.local.sandbox.template import BASE, Template
from rsigym.platform.errors import OperatorError

__all__ = ["SUPERVISOR_INSIDE", "Bubblewrap", "find_bubblewrap"]

SUPERVISOR_INSIDE = "/run/rsigym/supervisor.pyz"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "localtime", "ssl/certs")
_SHARED_MEMORY_BYTES = 64 << 20  # Docker's default for /dev/shm


@dataclass(frozen=True)
class Bubblewrap:
    """A bubblewrap that works here.

    Attributes:
        program: Its path.
        version: As it says itself.
        no_nesting: Whether it can forbid user namespaces inside the sandbox (0.8 and later).
    """

    program: str
    version: str
    no_nesting: bool

    def command(self, layout: Layout, interpreter: Interpreter, template: Template) -> list[str]:
        """The words that run what is appended to them as PID 1 of a sandbox."""
        words = [self.program, *_namespaces(self.no_nesting), *_system(template)]
        for file in sorted(layout.etc.iterdir()):
            words += ["--ro-bind", str(file), f"/etc/{file.name}"]
        words += ["--ro-bind", str(layout.supervisor), SUPERVISOR_INSIDE]
        for name in FOLDERS:
            words += ["--bind", str(layout.folder / name), f"/{name}"]
        words += ["--symlink", "../tmp", "/var/tmp"]
        if template.root is None:
            words += _installation(interpreter)  # after the folders: it may lie in one of that name
        words += ["--remount-ro", "/dev", "--remount-ro", "/"]
        return [*words, "--chdir", "/", "--"]

    def complaint(self, template: Template, check: Sequence[str]) -> str:
        """What is printed last when `check` fails in a template's system; nothing if it works."""
        words = [self.program, *_namespaces(self.no_nesting), *_system(template)]
        return _complaint([*words, "--", *check])


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
    complaint = ""
    for no_nesting in (True, False):
        interpreter = choose_interpreter(substitute_for_root())
        words = [program, *_namespaces(no_nesting), *_system(BASE), *_installation(interpreter)]
        words += ["--", str(interpreter.path), "-I", "-S", "-c", "import ctypes, socket"]
        complaint = _complaint(words)
        if complaint == "":
            return Bubblewrap(program, version.strip().removeprefix("bubblewrap "), no_nesting)
    raise OperatorError(
        f"bubblewrap does not work here ({complaint}): {_remedy()}, or pass --sandbox process to "
        "run without isolation"
    )


def _complaint(words: list[str]) -> str:
    user = substitute_for_root()
    try:
        result = subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
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


def _installation(interpreter: Interpreter) -> list[str]:
    prefix = interpreter.prefix
    return [] if prefix is None else ["--ro-bind", str(prefix), str(prefix)]


def _system(template: Template) -> list[str]:
    words = _host_system() if template.root is None else show_root(template.root)
    words += [*template.binds, "--proc", "/proc", "--dev", "/dev"]
    return [*words, "--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]


def _host_system() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words
