"""The cloud's services on this machine, over the same wires."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsigym.local.e2b.process import e2b_server
    from rsigym.local.tinker.process import tinker_server

__all__ = ["e2b_server", "tinker_server"]


def __getattr__(name: str) -> Any:
    if name == "e2b_server":
        from rsigym.local.e2b.process import e2b_server

        return e2b_server
    if name == "tinker_server":
        from rsigym.local.tinker.process import tinker_server

        return tinker_server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
