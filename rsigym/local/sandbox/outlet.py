"""A sandbox's way out, as wide as the grant and what is asked of it both allow."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from rsigym.local.sandbox.egress import Egress
from rsigym.local.sandbox.lookups import Resolve
from rsigym.local.sandbox.proxy import Bounds, Proxy
from rsigym.local.sandbox.tunnel import Traffic

__all__ = ["PROXY_PORT", "Outlet"]

PROXY_PORT = 3128
_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_ENVIRONMENT = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _PROXY),
    "ALL_PROXY": _PROXY,
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1"),
}


class Outlet:
    """Opens, narrows and closes the proxy of one sandbox.

    Attributes:
        traffic: What went through it, over its whole life.
    """

    def __init__(
        self,
        listen: Callable[[int], Awaitable[socket.socket]],
        resolve: Resolve,
        bounds: Bounds,
    ):
        """
        Args:
            listen: Gives a listening socket inside the sandbox.
            resolve: How names are looked up.
            bounds: What its connections may take.
        """
        self.traffic = Traffic()
        self._listen, self._resolve, self._bounds = listen, resolve, bounds
        self._proxy: Proxy | None = None
        self._changing = asyncio.Lock()

    @property
    def environment(self) -> dict[str, str]:
        """What tells programs of the way out; nothing where there is none."""
        return {} if self._proxy is None else dict(_ENVIRONMENT)

    async def set(self, egress: Egress) -> None:
        """Makes it what `egress` allows, for open connections too."""
        async with self._changing:
            if egress.is_none:
                await self._shut()
            elif self._proxy is not None:
                self._proxy.allow(egress)
            else:
                proxy = Proxy(egress, self._resolve, self.traffic, self._bounds)
                await proxy.serve(await self._listen(PROXY_PORT))
                self._proxy = proxy

    async def close(self) -> None:
        """Leaves no way out."""
        async with self._changing:
            await self._shut()

    async def _shut(self) -> None:
        if self._proxy is not None:
            await self._proxy.close()
            self._proxy = None
