"""Telling what happens in a folder, by inotify; in a process of its own for each folder."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import sys

from .entries import walk
from .messages import send

TYPE_CHECKING = False  # `typing` itself would be a tenth of the start of a sandbox
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

MOST_FOLDERS = 5_000  # older kernels allow one user 8,192, for all sandboxes together
_BUFFER_BYTES = 16 * 1024  # about as much as one message tells without a memory file
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows

# Of linux/inotify.h.
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE = 0x2, 0x4, 0x40, 0x80, 0x100
_DELETE, _DELETE_SELF, _MOVE_SELF = 0x200, 0x400, 0x800
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLY_FOLDERS, _NOT_LINKS, _IS_FOLDER = 0x01000000, 0x02000000, 0x40000000
_WATCHED = _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_WATCHED |= _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS | _NOT_LINKS

_KINDS = {
    _CREATE: "create",
    _MOVED_TO: "create",
    _MODIFY: "write",
    _ATTRIB: "chmod",
    _DELETE: "remove",
    _MOVED_FROM: "rename",
}
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
_libc = ctypes.CDLL(None, use_errno=True)


def watch(link: socket.socket, root: str, recursive: bool) -> None:
    """Sends {ready}, then {events: [[name relative to `root`, kind], …], over} until nobody reads.

    It ends after the "remove" or "rename", of the name "", of `root` itself.

    Raises:
        OSError: `root` cannot be watched, or events were lost.
    """
    folders = _Folders(root, recursive)
    for _ in folders.add(""):
        pass
    send(link, {"ready": True})
    poll = select.poll()
    poll.register(folders.fd, select.POLLIN)
    poll.register(link, 0)  # its end is always told
    while all(fd == folders.fd for fd, _ in poll.poll()):
        events = list(folders.read())
        if events:
            send(link, {"events": events, "over": folders.over})
        if folders.over:
            return


class _Folders:
    """The watched folders and what happens in them.

    Attributes:
        fd: Can be read when something has happened.
        over: Whether the first of them is gone.
    """

    def __init__(self, root: str, recursive: bool):
        self.fd = _checked(_libc.inotify_init1(os.O_CLOEXEC))
        self.over = False
        self._root, self._recursive = root, recursive
        self._names: dict[int, str] = {}  # by watch
        self._told: set[str] = set()  # found in a new folder; inotify may tell of them too
        self._moving: tuple[int, str] | None = None  # cookie and name of a folder on its way

    def add(self, name: str) -> Iterator[str]:
        """Watches a folder and, if that is wanted, all below it; yields what is there already."""
        if self._add_watch(name) and self._recursive:
            for below, _, info in walk(os.path.join(self._root, name), sys.maxsize):
                found = os.path.join(name, below)
                if stat.S_ISDIR(info.st_mode):  # before it is itself walked through
                    self._add_watch(found)
                yield found

    def read(self) -> Iterator[tuple[str, str]]:
        """(name, kind) of what has happened."""
        data = os.read(self.fd, _BUFFER_BYTES)
        while data:
            watch, mask, cookie, length = _EVENT.unpack_from(data)
            last = os.fsdecode(data[_EVENT.size : _EVENT.size + length].rstrip(b"\0"))
            data = data[_EVENT.size + length :]
            if mask & _OVERFLOW:
                raise OSError(errno.EOVERFLOW, "more happened than was read: events are lost")
            if self._moving and (cookie != self._moving[0] or not mask & _MOVED_TO):
                self._arrive(None)  # both halves of a move within the tree come together
            folder = self._names.get(watch)
            if folder is None:
                continue
            if last:
                yield from self._in_folder(os.path.join(folder, last), mask, cookie)
            elif folder == "" and mask & (_DELETE_SELF | _MOVE_SELF):
                self.over = True
                yield "", "remove" if mask & _DELETE_SELF else "rename"
            elif mask & _IGNORED:
                del self._names[watch]

    def _in_folder(self, name: str, mask: int, cookie: int) -> Iterator[tuple[str, str]]:
        if mask & (_DELETE | _MOVED_FROM):
            self._told.discard(name)
        if mask & _CREATE and name in self._told:
            self._told.remove(name)
            return
        yield name, _KINDS[mask & ~_IS_FOLDER]
        if not (self._recursive and mask & _IS_FOLDER):
            return
        if mask & _MOVED_FROM:
            self._moving = (cookie, name)
        elif self._moving:
            self._arrive(name)
        elif mask & (_CREATE | _MOVED_TO):
            for found in self.add(name):
                if mask & _CREATE:
                    self._told.add(found)
                    yield found, "create"

    def _arrive(self, new: str | None) -> None:
        """Knows a folder on its way by its new name, or forgets it as it has left the tree."""
        assert self._moving is not None
        old, self._moving = self._moving[1], None
        for watch, folder in list(self._names.items()):
            if folder != old and not folder.startswith(old + "/"):
                continue
            if new is not None:
                self._names[watch] = new + folder.removeprefix(old)
            else:
                _libc.inotify_rm_watch(self.fd, watch)
                del self._names[watch]

    def _add_watch(self, name: str) -> bool:
        """Whether there is such a folder to watch."""
        if len(self._names) >= MOST_FOLDERS:
            raise OSError(errno.ENOSPC, f"more than {MOST_FOLDERS} folders are too many to watch")
        path = os.fsencode(os.path.join(self._root, name))
        try:
            self._names[_checked(_libc.inotify_add_watch(self.fd, path, _WATCHED))] = name
        except OSError as error:
            if name == "" or error.errno not in _NO_FOLDER:
                raise
            return False
        return True


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
