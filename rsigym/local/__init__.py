"""The cloud's services on this machine, over the same wires."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsigym.local.tinker.process import tinker_server

__all__ = ["tinker_server"]


def __getattr__(name: str) -> Any:
    if name == "tinker_server":
        from rsigym.local.tinker.process import tinker_server

        return tinker_server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
