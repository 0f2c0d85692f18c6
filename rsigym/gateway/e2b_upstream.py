"""Hosted E2B behind the proxy: its key, its connections, and answers that can be passed on."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rsigym.gateway.e2b_errors import Refusal, Unreachable

if TYPE_CHECKING:
    import httpx

__all__ = ["Address", "Reply", "Upstream"]

type Address = tuple[str, str]
"""URL and API key."""

_MOST_BYTES = 8 * 2**20
_KEPT_HEADERS = ("x-next-token", "retry-after", "should-retry")
_MASK = "***"
_REFUSED_KEY = (401, 403)


@dataclass(frozen=True)
class Reply:
    """What the hosted service answered, its key taken out.

    Attributes:
        body: Decoded JSON; None where there was none.
        headers: Those that mean something to the SDK.
    """

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Upstream:
    """The control plane of hosted E2B. Used on one event loop.

    Args:
        address: Where it is; asked at every use, so that the key is kept nowhere.
        timeout_s: How long an answer may take.
    """

    def __init__(self, address: Callable[[], Address], timeout_s: float = 60.0):
        self._address = address
        self._timeout_s = timeout_s

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        attempts: int = 1,
    ) -> Reply:
        """Make one request.

        Args:
            attempts: How often it is made at most until there is an answer; more than once only
                where doing it twice is the same as doing it once.

        Raises:
            Unreachable: There was no answer, or none that is JSON.
            Refusal: The hosted service does not take the platform's key.
        """
        while True:
            attempts -= 1
            try:
                return await self._send(method, path, body, params)
            except Unreachable:
                if attempts < 1:
                    raise

    async def close(self) -> None:
        await self._client.aclose()

    @cached_property
    def _client(self) -> "httpx.AsyncClient":
        import httpx

        return httpx.AsyncClient(
            timeout=httpx.Timeout(self._timeout_s, connect=10.0),
            # Shorter than servers keep idle connections: one that is closed just as a create is
            # sent on it looks like a create that got no answer.
            limits=httpx.Limits(
                max_connections=100, max_keepalive_connections=20, keepalive_expiry=3
            ),
        )

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        params: Mapping[str, Any] | None,
    ) -> Reply:
        import httpx

        url, key = self._address()
        headers = {"X-API-KEY": key, "Accept": "application/json"}
        request = self._client.stream(
            method, url.rstrip("/") + path, json=body, params=params, headers=headers
        )
        try:
            async with request as response:
                content = await _bounded(response)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Unreachable(_lost(error), delivered=False) from error
        except httpx.HTTPError as error:
            raise Unreachable(_lost(error), delivered=True) from error
        if response.status_code in _REFUSED_KEY:
            raise Refusal(502, "the E2B service does not accept the platform's key")
        kept = {
            name: response.headers[name].replace(key, _MASK)
            for name in _KEPT_HEADERS
            if name in response.headers
        }
        return Reply(
            response.status_code, _decoded(content.replace(key.encode(), _MASK.encode())), kept
        )


async def _bounded(response: "httpx.Response") -> bytes:
    content = b""
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _MOST_BYTES:
            raise Unreachable("the E2B service answered more than it should", delivered=True)
    return content


def _decoded(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Unreachable("the E2B service did not answer JSON", delivered=True) from error


def _lost(error: Exception) -> str:
    return f"the E2B service gave no answer ({type(error).__name__})"
