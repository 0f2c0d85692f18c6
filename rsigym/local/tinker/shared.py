"""One local Tinker server per process and settings, for everybody in the process who needs one."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from rsigym.local.tinker.engines import Dtype
from rsigym.local.tinker.launch import Settings, TinkerServer

__all__ = ["shared_tinker_server"]

_lock = threading.Lock()
_servers: dict[Settings, TinkerServer] = {}


def shared_tinker_server(
    models: Mapping[str, Path] | None = None,
    *,
    store: Path | None = None,
    dtype: Dtype = "auto",
    threads: int | None = None,
) -> TinkerServer:
    """The process's server with these settings, started on first use and ended with the process.

    A server that has died is replaced, so call this before each piece of work and keep the
    answer no longer. Takes what `tinker_server` takes. A forked process starts its own.
    """
    settings = Settings.resolve(models, store=store, dtype=dtype, threads=threads)
    with _lock:
        server = _servers.get(settings)
        if server is not None and server.alive():
            return server
        if server is not None:
            server.close()
        _servers[settings] = TinkerServer(settings)
        return _servers[settings]


def _forget() -> None:
    """In a forked child: the servers are the parent's, and the lock may be held by no one here."""
    global _lock
    _lock = threading.Lock()
    _servers.clear()


os.register_at_fork(after_in_child=_forget)
