"""The Tinker servers that a process shares."""

from collections.abc import Mapping
from pathlib import Path

from rsigym.local.shared_servers import SharedServers
from rsigym.local.tinker.engines import Dtype
from rsigym.local.tinker.launch import Settings, TinkerServer

__all__ = ["shared_tinker_server"]

_servers = SharedServers(TinkerServer)


def shared_tinker_server(
    models: Mapping[str, Path] | None = None,
    *,
    store: Path | None = None,
    dtype: Dtype = "auto",
    threads: int | None = None,
) -> TinkerServer:
    """The process's server with these settings; takes what `tinker_server` takes."""
    return _servers.get(Settings.resolve(models, store=store, dtype=dtype, threads=threads))
