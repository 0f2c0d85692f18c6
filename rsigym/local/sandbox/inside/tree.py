"""Files and folders across the wall of a sandbox, in either direction.

The side that has the tree opens its files and passes the descriptors; the other side writes
copies. So each side resolves only its own paths, and a link planted on one side leads nowhere on
the other.
"""

from __future__ import annotations

import errno
import os
import socket
import stat

from .messages import receive, send

TYPE_CHECKING = False  # `typing` itself would be a tenth of the start of a sandbox
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

BATCH_FILES = 64  # descriptors in flight at once; the kernel bounds them by the open-files limit
BATCH_ENTRIES = 1024
MOST_NAMED = 100  # of what was left out
MOST_DEPTH = 64  # of folders; deeper trees break the programs that have to remove them
MOST_PATH_BYTES = 4000  # PATH_MAX is 4096


def confined(path: str, root: str, *, follow: bool = False) -> str:
    """`path`, refused if links lead it out of `root`.

    Args:
        path: Absolute.
        root: The folder that it may not leave.
        follow: Whether its last part is resolved too, if that is a link.
    """
    place = os.path.realpath(path if follow else os.path.dirname(path))
    root = os.path.realpath(root)
    if os.path.commonpath([place, root]) != root:
        raise PermissionError(errno.EPERM, "this path leads out of the sandbox", path)
    return place if follow else os.path.join(place, os.path.basename(path))


def send_tree(
    link: socket.socket, source: str, opened: Callable[[str, int], int] = lambda path, fd: fd
) -> list[str]:
    """Passes a file, or all files of a folder, to `receive_tree`.

    Links, devices, pipes and what cannot be read are left out, never followed or waited for.

    Args:
        link: A blocking socket to the other side.
        source: The path of the file or folder here.
        opened: Given each file's path and descriptor; may answer with another descriptor.

    Returns:
        The first names, relative to `source`, that either side left out.

    Raises:
        OSError: `source` is missing, or the other side could not write.
    """
    entries: list[tuple[str, int, bool]] = []
    fds: list[int] = []
    left_out: list[str] = []
    for name, info in _walk(source):
        path = os.path.join(source, name) if name else source
        mode = stat.S_IMODE(info.st_mode) & 0o777
        if stat.S_ISDIR(info.st_mode):
            entries.append((name, mode, False))
        elif (fd := _open_regular(path)) is not None:
            fds.append(opened(path, fd))
            entries.append((name, mode, True))
        elif len(left_out) < MOST_NAMED:
            left_out.append(name)
        if len(fds) == BATCH_FILES or len(entries) == BATCH_ENTRIES:
            answer = _pass(link, {"entries": entries, "end": False}, fds)
            if answer["full"]:
                break
            entries, fds = [], []
    else:
        answer = _pass(link, {"entries": entries, "end": True, "left_out": left_out}, fds)
    return (left_out + answer["left_out"])[:MOST_NAMED]


def receive_tree(link: socket.socket, target: str, most_bytes: int, most_entries: int) -> list[str]:
    """Writes what `send_tree` passes, as `target` or below it.

    Files are made anew, so that a link, a pipe or an opened file of the same name is replaced and
    not written through. The other side is not trusted: a name that leads out of `target` is an
    error, and what goes beyond the bounds is left out.

    Args:
        link: A blocking socket to the other side.
        target: The path here; its parents are made.
        most_bytes: Of all files together.
        most_entries: Files and folders.

    Returns:
        The first names, relative to `target`, that either side left out.

    Raises:
        OSError: The other side could not read, or this one could not write.
    """
    os.makedirs(os.path.dirname(target), exist_ok=True)
    copy = _Copy(target, most_bytes, most_entries)
    while True:
        message, fds = _answer(link)
        try:
            sources = iter(fds)
            for name, mode, is_file in message["entries"]:
                copy.add(name, mode, next(sources) if is_file else None)
        finally:
            for fd in fds:
                os.close(fd)
        send(link, {"full": copy.full, "left_out": copy.left_out})
        if message["end"] or copy.full:
            return (message.get("left_out", []) + copy.left_out)[:MOST_NAMED]


class _Copy:
    """The receiving side's tree while it grows."""

    def __init__(self, target: str, most_bytes: int, most_entries: int):
        self.target = target
        self.bytes, self.entries = most_bytes, most_entries
        self.folders: set[str] = set()
        self.left_out: list[str] = []

    @property
    def full(self) -> bool:
        return self.entries < 0

    def add(self, name: str, mode: int, source: int | None) -> None:
        """Adds a folder, or a file whose content is behind the descriptor `source`."""
        self.entries -= 1
        size = 0 if source is None else os.fstat(source).st_size
        if self.full or size > self.bytes or self._too_deep(name):
            if len(self.left_out) < MOST_NAMED:
                self.left_out.append(name)
        elif source is None:
            _make_folder(self._path(name), mode, is_target=not name)
            self.folders.add(name)
        else:
            _write_copy(source, self._path(name), mode, size)
            self.bytes -= size

    def _too_deep(self, name: str) -> bool:
        path_bytes = len(os.fsencode(self.target)) + len(os.fsencode(name))
        return name.count("/") >= MOST_DEPTH or path_bytes > MOST_PATH_BYTES

    def _path(self, name: str) -> str:
        if not name:
            return self.target
        parent, _, last = name.rpartition("/")
        if parent not in self.folders or last in ("", ".", "..") or "\0" in name:
            raise OSError(errno.EINVAL, "this name leads out of the folder", name)
        return os.path.join(self.target, name)


def _walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yields (path relative to `root`, lstat): `root` itself as "", then all below it."""
    info = os.lstat(root)
    if stat.S_ISLNK(info.st_mode):
        raise OSError(errno.ELOOP, "this is a link, and links are not followed", root)
    yield "", info
    pending = [""] if stat.S_ISDIR(info.st_mode) else []
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                children = [(child.name, child.stat(follow_symlinks=False)) for child in found]
        except OSError:
            continue  # unreadable, gone, or deeper than a path can name: there is nothing to send
        for last, info in sorted(children, key=lambda child: child[0]):
            name = os.path.join(folder, last)
            yield name, info
            if stat.S_ISDIR(info.st_mode):
                pending.append(name)


def _open_regular(path: str) -> int | None:
    """A descriptor of a regular file, or None for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _pass(link: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    try:
        send(link, message, fds)
    finally:
        for fd in fds:
            os.close(fd)
    return _answer(link)[0]


def _answer(link: socket.socket) -> tuple[dict[str, Any], list[int]]:
    message, fds, _ = receive(link)
    if message is None:
        raise ConnectionResetError(errno.ECONNRESET, "the other side of the transfer is gone")
    if "error" in message:
        raise OSError(*message["error"])
    return message, fds


def _make_folder(path: str, mode: int, *, is_target: bool) -> None:
    """Makes a folder, in the place of whatever else has its name; `target` itself may be a link."""
    if is_target:
        os.makedirs(path, exist_ok=True)
        return
    if os.path.islink(path) or not os.path.isdir(path):
        _remove(path)
        os.mkdir(path)
    os.chmod(path, mode | 0o700)


def _write_copy(source: int, path: str, mode: int, size: int) -> None:
    """Writes the first `size` bytes of `source` as a new file."""
    _remove(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    out = os.open(path, flags, 0o600)
    try:
        done = 0
        while done < size and (count := os.sendfile(out, source, done, size - done)):
            done += count
        os.fchmod(out, mode | 0o600)
    finally:
        os.close(out)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
