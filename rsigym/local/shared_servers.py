"""One server of a kind per process and settings, for everybody in the process who needs one."""

import os
import threading
from collections.abc import Callable, Hashable

from rsigym.local.server_process import ServerProcess

__all__ = ["SharedServers"]


class SharedServers[Settings: Hashable, Server: ServerProcess]:
    """The process's servers of one kind, started on first use and ended with the process.

    A forked process starts its own. Safe from any thread.
    """

    def __init__(self, start: Callable[[Settings], Server]):
        self._start = start
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def get(self, settings: Settings) -> Server:
        """The server with these settings.

        One that has died is replaced, so call this before each piece of work and keep the answer
        no longer.
        """
        with self._lock:
            server = self._servers.get(settings)
            if server is not None and server.alive():
                return server
            if server is not None:
                server.close()
            self._servers[settings] = self._start(settings)
            return self._servers[settings]

    def _forget(self) -> None:
        """In a forked child: the servers are the parent's, and the lock may be held by no one."""
        self._lock = threading.Lock()
        self._servers: dict[Settings, Server] = {}
