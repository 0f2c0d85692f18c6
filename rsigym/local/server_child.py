"""The child's end of `server_process`: its settings, its socket, and its parent's end."""

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["announce", "open_listener", "read_settings", "when_parent_ends"]

# How often the parent is looked for, beside the pipe: a process that the parent forked without
# our knowledge could hold the pipe open.
WATCH_S = 1.0


def read_settings() -> dict[str, Any]:
    """The line of JSON that the parent writes to standard input."""
    return json.loads(sys.stdin.buffer.readline())


def when_parent_ends(parent: int, then: Callable[[], None]) -> None:
    """Calls `then`, in a thread of its own, once the parent is gone or has let go of the pipe."""

    def watch() -> None:
        while os.getppid() == parent:
            ready, _, _ = select.select([sys.stdin], [], [], WATCH_S)
            if ready and not os.read(sys.stdin.fileno(), 1):
                break
        then()

    threading.Thread(target=watch, daemon=True).start()


def open_listener(port: int) -> socket.socket:
    """A listening socket on the loopback; port 0 takes a free one."""
    listener = socket.create_server(("127.0.0.1", port), backlog=2048)
    # asyncio does this for sockets it opens itself only; without it each answer takes 40 ms more.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def announce(listener: socket.socket) -> None:
    """Tells the parent the URL; what is printed from now on goes to the log."""
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
