"""Hosted E2B for runs: the control plane with the platform's key, permissions and budget in front.

A run's unmodified SDK gets `E2B_API_URL` (this proxy) and a platform key of the run's own. The data
plane is reached directly, with each sandbox's own token: so what a sandbox may do is settled when
it is made, and it is killed when its time is not paid for any more. What is not listed here is
refused.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rsigym.gateway.e2b_bodies import network_body, timeout_of
from rsigym.gateway.e2b_errors import Refusal, answer, refusal_of
from rsigym.gateway.e2b_metadata import filtered, stripped
from rsigym.gateway.e2b_owned import Owned
from rsigym.gateway.e2b_sandboxes import Sandboxes
from rsigym.gateway.e2b_tenant import Tenant, Tenants
from rsigym.gateway.e2b_upstream import Address, Reply, Upstream
from rsigym.platform.errors import Failure
from rsigym.services.sandbox_lease import Terms

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["E2BProxy"]

_log = logging.getLogger(__name__)

_MOST_BYTES = 1 << 20
_LIST_PARAMS = ("state", "limit", "nextToken", "order", "startedAfter", "template")
_METRIC_PARAMS = ("start", "end")

type _Handler = Callable[["Request", Tenant], Awaitable[Reply]]


class E2BProxy:
    """The proxy; `app` is the ASGI application.

    Args:
        tenants: The run behind a platform key.
        address: Where hosted E2B is, as (URL, key); read at every use.
        terms: What sandbox time costs.
    """

    def __init__(
        self,
        tenants: Tenants,
        address: Callable[[], Address],
        terms: Terms,
        *,
        timeout_s: float = 60.0,
        patience_s: float = 10.0,
    ):
        self._tenants = tenants
        self._upstream = Upstream(address, timeout_s)
        self._sandboxes = Sandboxes(self._upstream, terms, patience_s)
        self._made: dict[tuple[str, str], asyncio.Task[Reply]] = {}
        self.app = self._application()

    async def end_run(self, name: str) -> None:
        """Kill every sandbox of a run whose key is not taken any more."""
        await self._sandboxes.end(self._sandboxes.of(name), "the run is over")

    async def close(self) -> None:
        """Kill every sandbox; twice is fine."""
        await self._sandboxes.end(self._sandboxes.of(), "the platform was stopped")
        await self._sandboxes.settled()
        await self._upstream.close()

    def _application(self) -> "Starlette":
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await self.close()

        def route(method: str, path: str, handler: _Handler) -> Route:
            return Route(path, self._answering(handler), methods=[method])

        one = "/sandboxes/{id}"
        app = Starlette(
            lifespan=lifespan,
            exception_handlers={HTTPException: _not_offered},
            routes=[
                *(
                    route(method, path, handler)
                    for path in ("/sandboxes", "/v2/sandboxes")
                    for method, handler in (("POST", self._create), ("GET", self._list))
                ),
                *(
                    route("POST", path, self._connect)
                    for path in (f"{one}/connect", f"/v2{one}/connect", f"{one}/resume")
                ),
                route("GET", one, self._info),
                route("DELETE", one, self._kill),
                route("POST", f"{one}/timeout", self._set_timeout),
                route("POST", f"{one}/pause", self._pause),
                route("GET", f"{one}/metrics", self._metrics),
                route("PUT", f"{one}/network", self._set_network),
            ],
        )
        app.router.redirect_slashes = False
        return app

    def _answering(self, handler: _Handler) -> Callable[["Request"], Awaitable["Response"]]:
        """A handler for runs alone, whose every outcome is JSON."""

        async def handle(request: "Request") -> "Response":
            try:
                tenant = self._tenants(request.headers.get("x-api-key", ""))
                if tenant is None:
                    raise Refusal(401, "this API key is not a key of any run")
                return _response(await handler(request, tenant))
            except Refusal as refusal:
                return answer(refusal)
            except Failure as failure:
                return answer(refusal_of(failure))
            except Exception as error:  # noqa: BLE001 -- the SDK fails on what is not JSON
                _log.error("%s %s failed: %s", request.method, request.url.path, type(error))
                return answer(Refusal(500, "the platform failed on this request"))

        return handle

    async def _create(self, request: "Request", tenant: Tenant) -> Reply:
        body = await _body(request)
        key = request.headers.get("idempotency-key")
        if key is None:
            return await self._sandboxes.create(tenant, request.url.path, body)
        making = self._made.get((tenant.name, key))
        if making is None or not self._stands(tenant, making):
            making = asyncio.create_task(self._sandboxes.create(tenant, request.url.path, body))
            self._made[tenant.name, key] = making
        return await asyncio.shield(making)

    def _stands(self, tenant: Tenant, making: asyncio.Task[Reply]) -> bool:
        """Whether a create is under way, or its sandbox is still there."""
        if not making.done():
            return True
        made = not making.cancelled() and making.exception() is None and making.result().ok
        return made and self._sandboxes.seen(tenant, making.result().body["sandboxID"]) is not None

    async def _list(self, request: "Request", tenant: Tenant) -> Reply:
        query = request.query_params
        params = {name: query.getlist(name) for name in _LIST_PARAMS if name in query}
        params["metadata"] = [filtered(query.get("metadata"), tenant.name)]
        reply = await self._upstream.send("GET", request.url.path, params=params, attempts=2)
        if not reply.ok or not isinstance(reply.body, list):
            return reply
        # The filter is the hosted service's to apply; whose a sandbox is, is for this to say.
        return replace(
            reply,
            body=[
                self._shown(owned, each)
                for each in reply.body
                if (owned := self._sandboxes.seen(tenant, each.get("sandboxID")))
            ],
        )

    async def _info(self, request: "Request", tenant: Tenant) -> Reply:
        owned = self._find(request, tenant)
        reply = await self._sandboxes.relay(owned, "GET", "")
        return replace(reply, body=self._shown(owned, reply.body)) if reply.ok else reply

    async def _connect(self, request: "Request", tenant: Tenant) -> Reply:
        owned, body = self._find(request, tenant), await _body(request)
        return await self._sandboxes.connect(owned, request.url.path, body, timeout_of(body))

    async def _set_timeout(self, request: "Request", tenant: Tenant) -> Reply:
        owned = self._find(request, tenant)
        await self._sandboxes.set_timeout(owned, timeout_of(await _body(request)))
        return Reply(204, None, {})

    async def _pause(self, request: "Request", tenant: Tenant) -> Reply:
        owned = self._find(request, tenant)
        return await self._sandboxes.pause(owned, await _body(request))

    async def _kill(self, request: "Request", tenant: Tenant) -> Reply:
        return await self._sandboxes.kill(self._find(request, tenant))

    async def _metrics(self, request: "Request", tenant: Tenant) -> Reply:
        owned, query = self._find(request, tenant), request.query_params
        params = {name: query[name] for name in _METRIC_PARAMS if name in query}
        return await self._sandboxes.relay(owned, "GET", "/metrics", params=params)

    async def _set_network(self, request: "Request", tenant: Tenant) -> Reply:
        owned, body = self._find(request, tenant), await _body(request)
        allowed = network_body(body, tenant.permissions())
        return await self._sandboxes.relay(owned, "PUT", "/network", allowed)

    def _find(self, request: "Request", tenant: Tenant) -> Owned:
        return self._sandboxes.find(tenant, request.path_params["id"])

    def _shown(self, owned: Owned, sandbox: dict[str, Any]) -> dict[str, Any]:
        """A sandbox as its owner sees it: it ends when its lease does, not when the hosted
        service, which is told piece by piece, believes it does."""
        if owned.lease is None:
            return stripped(sandbox)
        end = owned.lease.ends_at.isoformat().replace("+00:00", "Z")
        return stripped({**sandbox, "endAt": end})


async def _not_offered(request: "Request", _: Exception) -> "Response":
    return answer(
        Refusal(501, f"the platform does not support {request.method} {request.url.path}")
    )


async def _body(request: "Request") -> Mapping[str, Any]:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MOST_BYTES:
            raise Refusal(413, f"the request has more than {_MOST_BYTES:,} bytes")
    try:
        body = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Refusal(400, "the body is not a JSON object")
    return body


def _response(reply: Reply) -> "Response":
    from starlette.responses import JSONResponse, Response

    headers = dict(reply.headers)
    if reply.body is None:
        return Response(status_code=reply.status, headers=headers)
    return JSONResponse(reply.body, reply.status, headers)
