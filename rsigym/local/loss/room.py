"""Locking a process up after it has imported what it needs: for code that has to have torch.

The sandbox for agents' programs has the system's Python. Torch is in the interpreter that runs
this, which may lie where no other user can go, so that the process starts as its parent's, imports,
and only then gives up what it has. What is left: no network, no other processes, nothing to write,
and of all files the installations of Python, which modules may still have to be read from.
"""

import ctypes
import os
import resource
import signal
import sys
from typing import NoReturn

__all__ = ["die_with_parent", "enter_room", "limit"]

_USER = 65533
"""Whom a process of root becomes outside; Debian reserves it."""

_INSIDE = 1000
_ROOM = "/proc"
"""Where the room is built: a folder that is on every machine, and in which no Python lies."""

_SPACES = (
    os.CLONE_NEWUSER
    | os.CLONE_NEWNET
    | os.CLONE_NEWNS
    | os.CLONE_NEWPID
    | os.CLONE_NEWIPC
    | os.CLONE_NEWUTS
)
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC = 1, 2, 4, 8, 32, 4096, 16384
_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES = 1, 38
_CAPABILITIES_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def enter_room() -> None:
    """Return in a child that is locked up; the caller waits for it and ends as it ends.

    Call it while there is one thread.

    Raises:
        OSError: The kernel allows no namespaces here. Nothing is locked then.
    """
    ready, say_ready = os.pipe()
    mapped, say_mapped = os.pipe()
    if child := os.fork():
        os.close(say_ready)
        if os.read(ready, 1):
            _map_users(child)
            os.write(say_mapped, b".")
        _end_as(child)
    die_with_parent()
    os.unshare(_SPACES)
    os.write(say_ready, b".")
    os.read(mapped, 1)
    _build()
    # The first process of the new process table, which keeps its powers, so that what it holds can
    # neither touch it nor outlive it: a process may undo by itself that it dies with its parent.
    if child := os.fork():
        _end_as(child)
    die_with_parent()
    if child := os.fork():
        _end_as(child)
    for descriptor in (ready, say_ready, mapped, say_mapped):
        os.close(descriptor)
    _give_up()


def limit(memory_mb: int) -> None:
    """Bound this process for good: its memory, and no files, processes or threads from now on."""
    for name, value in (
        ("DATA", memory_mb << 20),
        ("CORE", 0),
        ("FSIZE", 0),
        ("NPROC", 1),
    ):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def _map_users(child: int) -> None:
    """Root keeps itself inside for as long as the room is built, to read what only root can."""
    root = os.geteuid() == 0
    if not root:
        _write(f"/proc/{child}/setgroups", "deny")
    for name, own in (("uid", os.geteuid()), ("gid", os.getegid())):
        lines = f"0 0 1\n{_INSIDE} {_USER} 1\n" if root else f"{_INSIDE} {own} 1\n"
        _write(f"/proc/{child}/{name}_map", lines)


def _build() -> None:
    """Make a file system of Python's installations, read-only, the root of this process."""
    os.umask(0o022)
    shown = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix)}
    shown |= {path for path in ("/usr", "/lib", "/lib64") if os.path.isdir(path)}
    _mount("room", _ROOM, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    for path in sorted(shown):
        target = _ROOM + path
        if os.path.isdir(target):  # within one that is there
            continue
        kept = os.statvfs(path).f_flag & (_NOSUID | _NODEV | _NOEXEC)
        os.makedirs(target)
        _mount(path, target, None, _BIND | _REC)
        _mount(None, target, None, _BIND | _REMOUNT | _RDONLY | kept)
    _mount(None, _ROOM, None, _REMOUNT | _RDONLY | _NOSUID | _NODEV)
    os.chroot(_ROOM)
    os.chdir("/")


def _give_up() -> None:
    """Become nobody in particular, for good."""
    if os.getuid() != _INSIDE:
        os.setgroups([])
    os.setresgid(_INSIDE, _INSIDE, _INSIDE)
    os.setresuid(_INSIDE, _INSIDE, _INSIDE)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()))
    _check(_libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    die_with_parent()  # which a change of users had undone


def die_with_parent() -> None:
    """Be killed when the thread ends that started this process, whatever it is at."""
    _check(_libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))


def _end_as(child: int) -> NoReturn:
    """Wait for a child, and end with the exit status that a shell would give it."""
    for descriptor in (0, 1):
        os.close(descriptor)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), data.encode()))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
