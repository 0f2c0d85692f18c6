"""Files and folders, looked at and changed where a sandbox's paths lead.

Nothing here opens a pipe, a device or a socket, or waits for one.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from functools import cache

from .tree import confined

TYPE_CHECKING = False  # `typing` itself would be a tenth of the start of a sandbox
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_LISTED = 10_000
MOST_LISTED_BYTES = 4 << 20  # of their paths and of where links lead
_SUPERVISORS_OWN = "/proc"  # its memory among it

_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink"}


def stat_entry(root: str, path: str) -> dict[str, Any]:
    place = confined(path, root)
    return {"entry": _entry(path, place, os.lstat(place))}


def make_folder(root: str, path: str) -> dict[str, Any]:
    place = confined(path, root, follow=True)
    made = not os.path.isdir(place)
    _make_folders(place)
    return {"made": made}


def list_folder(root: str, path: str, depth: int) -> dict[str, Any]:
    """What is in a folder and, beyond a `depth` of 1, in those below it, in the order of paths."""
    place = confined(path, root, follow=True)
    os.close(os.open(place, os.O_RDONLY | os.O_DIRECTORY))  # says what is wrong, if anything is
    entries: list[list[Any]] = []
    room = MOST_LISTED_BYTES
    for name, found, info in walk(place, depth):
        entry = _entry(os.path.join(path, name), found, info)
        entries.append(entry)
        room -= len(entry[1]) + len(entry[-1] or "")
        if len(entries) > MOST_LISTED or room < 0:
            limit = f"more than {MOST_LISTED} entries, or their paths are too long: list less deep"
            raise OSError(errno.EFBIG, limit, path)
    return {"entries": sorted(entries, key=lambda entry: entry[1])}


def move(root: str, source: str, target: str) -> dict[str, Any]:
    old, new = confined(source, root), confined(target, root)
    os.lstat(old)
    _make_folders(os.path.dirname(new))
    try:
        os.rename(old, new)
    except OSError as error:
        # Each of a sandbox's own folders is a mount, even where all are on one disk.
        if error.errno != errno.EXDEV:
            raise
        _system("/bin/mv", "-T", "--", old, new)
    return {}


def remove(root: str, path: str) -> dict[str, Any]:
    place = confined(path, root)
    if stat.S_ISDIR(os.lstat(place).st_mode):
        _system("/bin/rm", "-rf", "--", place)  # at any depth, and whatever goes on in it
    else:
        os.unlink(place)
    return {}


def open_file(root: str, path: str, mode: str) -> int:
    """A descriptor of a regular file to read ("r"), or to write from its start on ("w")."""
    place = confined(path, root, follow=True)
    if mode == "w":
        _make_folders(os.path.dirname(place))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(place, flags, 0o666)
        except FileExistsError:
            pass
    fd = _open_regular(place, root, os.O_RDONLY if mode == "r" else os.O_WRONLY)
    if mode == "w":
        os.ftruncate(fd, 0)
    return fd


def _open_regular(place: str, root: str, flags: int) -> int:
    """Opens what is known to be a regular file of the sandbox, whatever is done to its name."""
    handle = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        own = f"/proc/self/fd/{handle}"
        found = confined(os.readlink(own), root)
        kind = stat.S_IFMT(os.fstat(handle).st_mode)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)
        if kind == stat.S_IFLNK:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
        if kind != stat.S_IFREG or os.path.commonpath([found, _SUPERVISORS_OWN]) != "/":
            raise PermissionError(errno.EACCES, "this is not a regular file", place)
        # A file that somebody has a lease on is refused and not waited for.
        return os.open(own, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(handle)


def _make_folders(place: str) -> None:
    try:
        os.makedirs(place, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place) from None


def walk(root: str, depth: int) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yields (name relative to `root`, path, lstat) of what is at most `depth` below it.

    What is unreadable, gone, or deeper than a path can name is left out.
    """
    pending = [("", 1)]
    while pending:
        folder, level = pending.pop()
        try:
            found = os.scandir(os.path.join(root, folder))
        except OSError:
            continue
        with found:
            for child in found:
                try:
                    info = child.stat(follow_symlinks=False)
                except OSError:
                    continue
                name = os.path.join(folder, child.name)
                yield name, child.path, info
                if level < depth and stat.S_ISDIR(info.st_mode):
                    pending.append((name, level + 1))


def _entry(path: str, place: str, info: os.stat_result) -> list[Any]:
    """[name, path, type, size, mode, modified, owner, group, target]; see `Entry`."""
    kind = stat.S_IFMT(info.st_mode)
    return [
        os.path.basename(path),
        path,
        _TYPES.get(kind, "other"),
        info.st_size,
        stat.S_IMODE(info.st_mode),
        info.st_mtime,
        _user(info.st_uid),
        _group(info.st_gid),
        os.path.realpath(place) if kind == stat.S_IFLNK else None,
    ]


@cache
def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@cache
def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _system(*words: str) -> None:
    """Runs one of the system's tools.

    Raises:
        OSError: It failed, with what it said first.
    """
    said = os.memfd_create("said")
    pid = os.posix_spawn(words[0], words, {}, file_actions=[(os.POSIX_SPAWN_DUP2, said, 2)])
    _, status = os.waitpid(pid, 0)
    complaint = os.pread(said, 1000, 0).decode(errors="replace").partition("\n")[0]
    os.close(said)
    if status != 0:
        raise OSError(errno.EIO, complaint or f"{words[0]} was killed")


AT_ONCE = {"stat": stat_entry, "make_dir": make_folder}
"""What takes no time."""

APART = {"list": list_folder, "move": move, "remove": remove}
"""What may take long, in a large tree."""
