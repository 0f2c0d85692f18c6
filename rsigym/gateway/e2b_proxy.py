"""Hosted E2B for runs: the control plane with the platform's key, permissions and budget in front.

A run's unmodified SDK gets `E2B_API_URL` (this proxy) and a platform key of the run's own. The data
plane is reached directly, with each sandbox's own token: so what a sandbox may do is settled when
it is made, and it is killed when its time is not paid for any more. What is not listed here is
refused.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rsigym.gateway.e2b_bodies import CLOSED, connect_body, pause_body, timeout_of
from rsigym.gateway.e2b_http import Handler, answering, not_offered, read_body
from rsigym.gateway.e2b_metadata import filtered
from rsigym.gateway.e2b_owned import Owned
from rsigym.gateway.e2b_sandboxes import Sandboxes
from rsigym.gateway.e2b_tenant import Tenant, Tenants
from rsigym.gateway.e2b_upstream import Address, Reply, Upstream
from rsigym.services.sandbox_lease import Terms

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

__all__ = ["E2BProxy"]

_LIST_PARAMS = ("state", "limit", "nextToken", "order", "startedAfter", "template")
_METRIC_PARAMS = ("start", "end")


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
        """Kill every sandbox of a run; it gets no more."""
        await self._sandboxes.end_run(name)

    async def close(self) -> None:
        """Kill every sandbox; twice is fine."""
        await self._sandboxes.close()
        await self._upstream.close()

    def _application(self) -> "Starlette":
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await self.close()

        def route(method: str, path: str, handler: Handler) -> Route:
            return Route(path, answering(self._tenants, handler), methods=[method])

        one = "/sandboxes/{id}"
        app = Starlette(
            lifespan=lifespan,
            exception_handlers={HTTPException: not_offered},
            routes=[
                route("POST", "/v2/sandboxes", self._create),
                route("POST", "/sandboxes", self._create),
                route("GET", "/v2/sandboxes", self._list),
                route("POST", f"/v2{one}/connect", self._connect),
                route("POST", f"{one}/connect", self._connect),
                route("POST", f"{one}/resume", self._connect),
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

    async def _create(self, request: "Request", tenant: Tenant) -> Reply:
        body = await read_body(request)
        key = request.headers.get("idempotency-key")
        if key is None:
            return await self._sandboxes.create(tenant, body)
        making = self._made.get((tenant.name, key))
        if making is None or not self._stands(tenant, making):
            making = asyncio.create_task(self._sandboxes.create(tenant, body))
            self._forget_made(tenant)
            self._made[tenant.name, key] = making
        return await asyncio.shield(making)

    def _forget_made(self, tenant: Tenant) -> None:
        """Forget a run's creates that were refused or whose sandbox is gone: it may make many."""
        self._made = {
            (run, key): making
            for (run, key), making in self._made.items()
            if run != tenant.name or self._stands(tenant, making)
        }

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
        reply = await self._upstream.send("GET", "/v2/sandboxes", params=params, attempts=2)
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
        reply = await owned.relay("GET")
        return replace(reply, body=self._shown(owned, reply.body)) if reply.ok else reply

    async def _connect(self, request: "Request", tenant: Tenant) -> Reply:
        owned, body = self._find(request, tenant), await read_body(request)
        return await owned.connect(connect_body(body), timeout_of(body))

    async def _set_timeout(self, request: "Request", tenant: Tenant) -> Reply:
        owned = self._find(request, tenant)
        await owned.set_timeout(timeout_of(await read_body(request)))
        return Reply(204, None, {})

    async def _pause(self, request: "Request", tenant: Tenant) -> Reply:
        owned = self._find(request, tenant)
        return await owned.pause(pause_body(await read_body(request)))

    async def _kill(self, request: "Request", tenant: Tenant) -> Reply:
        return await self._find(request, tenant).kill()

    async def _metrics(self, request: "Request", tenant: Tenant) -> Reply:
        owned, query = self._find(request, tenant), request.query_params
        params = {name: query[name] for name in _METRIC_PARAMS if name in query}
        return await owned.relay("GET", "/metrics", params=params)

    async def _set_network(self, request: "Request", tenant: Tenant) -> Reply:
        owned, body = self._find(request, tenant), await read_body(request)
        online = owned.call.model_copy(update={"internet": True})
        if not tenant.permissions().explain(online).allowed:
            return await owned.relay("PUT", "/network", CLOSED)
        owned.call = online
        return await owned.relay("PUT", "/network", body)

    def _find(self, request: "Request", tenant: Tenant) -> Owned:
        return self._sandboxes.find(tenant, request.path_params["id"])

    def _shown(self, owned: Owned, sandbox: dict[str, Any]) -> dict[str, Any]:
        """A sandbox as its owner sees it: it ends when its lease does, not when the hosted
        service, which is told piece by piece, believes it does."""
        if owned.lease is None:
            return sandbox
        end = owned.lease.ends_at.isoformat().replace("+00:00", "Z")
        return {**sandbox, "endAt": end}
