"""One JSON object and some descriptors in one packet of a SOCK_SEQPACKET pair."""

from __future__ import annotations

import array
import errno
import json
import os
import socket
import struct

TYPE_CHECKING = False  # `typing` itself would be a tenth of the start of a sandbox
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


INLINE_BYTES = 32 * 1024  # a longer message travels in a memory file: a packet holds about 200 KB
MOST_BYTES = 64 << 20  # of a message: what comes out of a sandbox must not fill this machine
_SPILLED = b"@"
MOST_DESCRIPTORS = 253  # what the kernel passes in one packet


def send(link: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Sends a message with descriptors, which stay open here."""
    body = json.dumps({**message, "fds": len(fds)}).encode()
    if len(body) <= INLINE_BYTES:
        _send_packet(link, body, fds)
        return
    spill = os.memfd_create("message")
    try:
        os.write(spill, body)
        _send_packet(link, _SPILLED, [spill, *fds])
    finally:
        os.close(spill)


def receive(link: socket.socket) -> tuple[dict[str, Any] | None, list[int], int]:
    """The next message, its descriptors, and its sender's pid if `link` has SO_PASSCRED (else 0).

    The message is None once the other end is closed. The kernel drops descriptors when this
    process has too many open: the message then has an `error` [errno, text] and no descriptors.
    """
    room = socket.CMSG_SPACE(MOST_DESCRIPTORS * 4) + socket.CMSG_SPACE(12)
    body, ancillary, _, _ = link.recvmsg(2 * INLINE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    received = array.array("i")
    sender = 0
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            received.frombytes(data)
        elif kind == socket.SCM_CREDENTIALS:
            sender = struct.unpack("3i", data)[0]
    fds = list(received)
    if body == _SPILLED:
        if not fds:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        spill = fds.pop(0)
        body = _spilled(spill)
    message = json.loads(body) if body else None
    if message is not None and message["fds"] != len(fds):
        message["error"] = [errno.EMFILE, os.strerror(errno.EMFILE)]
        while fds:
            os.close(fds.pop())
    return message, fds, sender


def _spilled(spill: int) -> bytes:
    """The content of a memory file, which is closed."""
    try:
        size = os.fstat(spill).st_size
        if size > MOST_BYTES:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        return os.pread(spill, size, 0)
    finally:
        os.close(spill)


def _send_packet(link: socket.socket, body: bytes, fds: Sequence[int]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    link.sendmsg([body], rights, socket.MSG_NOSIGNAL)
