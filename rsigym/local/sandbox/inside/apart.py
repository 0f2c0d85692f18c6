"""Work that may take long, in processes of its own: the supervisor's loop must not wait."""

from __future__ import annotations

import errno
import os
import signal
import socket

from .messages import receive, send
from .processes import close_from

TYPE_CHECKING = False  # `typing` itself would be a tenth of the start of a sandbox
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CHANNEL = 3  # the supervisor's descriptor of it


class Apart:
    """The processes at work, of which some answer a request."""

    def __init__(self, channel: socket.socket):
        self._channel = channel
        self._answering: dict[int, int] = {}  # ids of requests, by pid

    def answer(self, request_id: int, work: Callable[[], dict[str, Any]]) -> None:
        """Lets another process answer a request with what `work` gives."""
        pid = os.fork()
        if pid != 0:
            self._answering[pid] = request_id
            return
        status = 1
        try:
            _keep_only_the_channel()
            try:
                answer = work()
            except (OSError, ValueError) as error:
                answer = refusal(error)
            send(self._channel, {"id": request_id, **answer})
            status = 0
        finally:
            os._exit(status)

    def unanswered(self, pid: int, status: int) -> int | None:
        """The request that a process has left without an answer, now that it has ended."""
        request_id = self._answering.pop(pid, None)
        return None if status == 0 else request_id

    def serve(self, fd: int, work: Callable[[socket.socket], object]) -> None:
        """Lets another process serve the socket `fd`, which takes the channel's place there."""
        if os.fork() != 0:
            return
        try:
            link = socket.socket(fileno=os.dup2(fd, CHANNEL, inheritable=False))
            _keep_only_the_channel()
            try:
                work(link)
            except OSError as error:
                send(link, refusal(error))
                while receive(link)[0] is not None:
                    pass  # to close with a message unread would take the error back
        finally:
            os._exit(0)


def _keep_only_the_channel() -> None:
    signal.set_wakeup_fd(-1)  # it would be written to whatever else has its number by then
    close_from(CHANNEL + 1)


def refusal(error: OSError | ValueError) -> dict[str, Any]:
    """The answer to what the system refused, or to what no path of it can be."""
    if isinstance(error, OSError):
        return {"error": [error.errno, error.strerror, error.filename]}
    return {"error": [errno.EINVAL, str(error)]}
