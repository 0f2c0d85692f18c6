"""The E2B servers that a process shares."""

from rsigym.local.e2b.process import E2BServer
from rsigym.local.e2b.settings import Settings
from rsigym.local.sandbox.isolation import Isolation
from rsigym.local.shared_servers import SharedServers

__all__ = ["shared_e2b_server"]

_servers = SharedServers(E2BServer)


def shared_e2b_server(isolation: Isolation, *, internet: bool) -> E2BServer:
    """The process's server whose sandboxes are kept apart like this, and may go so far."""
    return _servers.get(Settings(isolation, internet))
