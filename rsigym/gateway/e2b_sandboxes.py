"""The sandboxes behind the E2B proxy: whose they are, and how they are made."""

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from rsigym.gateway.e2b_bodies import asked, create_body
from rsigym.gateway.e2b_errors import Refusal, Unreachable
from rsigym.gateway.e2b_metadata import tags_filter
from rsigym.gateway.e2b_owned import Owned, sandbox_path
from rsigym.gateway.e2b_tenant import Tenant
from rsigym.gateway.e2b_upstream import Reply, Upstream
from rsigym.services.sandbox_lease import Terms
from rsigym.services.sandbox_reap import reap

__all__ = ["Sandboxes"]


class Sandboxes:
    """Every sandbox of every run. Used on one event loop.

    Args:
        terms: What their time costs, and how much of it is held ahead.
        patience_s: How long a sandbox is looked for whose creation got no answer.
    """

    def __init__(self, upstream: Upstream, terms: Terms, patience_s: float):
        self._upstream = upstream
        self._terms = terms
        self._patience_s = patience_s
        self._owned: dict[str, Owned] = {}
        self._over: set[str] = set()
        self._closed = False
        self._reaping: set[asyncio.Task[None]] = set()

    def find(self, tenant: Tenant, sandbox_id: str) -> Owned:
        """A run's own sandbox.

        Raises:
            Refusal: 404: there is none, it is another's, or it is gone.
        """
        owned = self._owned.get(sandbox_id)
        if owned is None or owned.tenant.name != tenant.name:
            raise Refusal(404, f"sandbox {sandbox_id} not found")
        owned.require()
        return owned

    def seen(self, tenant: Tenant, sandbox_id: object) -> Owned | None:
        """The sandbox, if it is this run's and there."""
        try:
            return self.find(tenant, str(sandbox_id))
        except Refusal:
            return None

    async def create(self, tenant: Tenant, body: Mapping[str, Any]) -> Reply:
        """Make a sandbox; its slot and the first piece of its time are taken before anything else.

        Raises:
            Refusal, Failure: It is refused, or failed and costs nothing.
        """
        self._require_going_on(tenant)
        call = asked(body, tenant.permissions())
        tag = secrets.token_hex(16)
        sent = create_body(body, call, owner=tenant.name, tag=tag)
        owned = Owned(tenant, call, body.get("autoPause") is True, self._upstream, self._terms)
        seconds = owned.hold(call.timeout_s)
        reply = await self._ask(owned, {**sent, "timeout": seconds}, tag)
        if not reply.ok:
            owned.release(unused=True)
            return reply
        owned.id = _id(reply)
        self._owned[owned.id] = owned
        owned.keep()
        if self._is_over(tenant):
            await owned.end("the run is over")
        self._require_going_on(tenant)
        return reply

    async def end_run(self, name: str) -> None:
        """Kill every sandbox of a run, also those that are being made; it gets no more."""
        self._over.add(name)
        await self._end(it for it in self._owned.values() if it.tenant.name == name)

    async def close(self) -> None:
        """Kill every sandbox, and wait until nothing is looked for any more; twice is fine."""
        self._closed = True
        await self._end(self._owned.values())
        await asyncio.gather(*self._reaping, return_exceptions=True)

    async def _ask(self, owned: Owned, body: Mapping[str, Any], tag: str) -> Reply:
        """The answer to a create, which is asked for once.

        Raises:
            Refusal: 502: it may have been made; then it is being looked for.
        """
        try:
            reply = await self._upstream.send("POST", "/v2/sandboxes", body)
        except Unreachable as error:
            if not error.delivered:
                owned.release(unused=True)
                raise
            self._look_for(owned, tag)
            raise _unclear(error.message) from error
        except Refusal:
            owned.release(unused=True)
            raise
        except BaseException:
            self._look_for(owned, tag)
            raise
        if reply.status >= 500 or (reply.ok and not _id(reply)):
            self._look_for(owned, tag)
            raise _unclear(f"the E2B service answered {reply.status}")
        return reply

    def _look_for(self, owned: Owned, tag: str) -> None:
        """Kill what a create without an answer has made; its slot and its hold stay until then."""
        task = asyncio.create_task(self._reap(owned, tag))
        self._reaping.add(task)
        task.add_done_callback(self._reaping.discard)

    async def _reap(self, owned: Owned, tag: str) -> None:
        async def find() -> list[str]:
            params = {"metadata": tags_filter(create=tag)}
            reply = await self._upstream.send("GET", "/v2/sandboxes", params=params)
            return [each["sandboxID"] for each in reply.body]

        async def kill(sandbox_id: str) -> None:
            await self._upstream.send("DELETE", sandbox_path(sandbox_id))

        try:
            await reap(find, kill, self._patience_s)
        finally:
            owned.release(unused=True)

    def _is_over(self, tenant: Tenant) -> bool:
        return self._closed or tenant.name in self._over

    def _require_going_on(self, tenant: Tenant) -> None:
        if self._is_over(tenant):
            raise Refusal(403, "the run is over: nothing new can be started")

    async def _end(self, owned: Iterable[Owned]) -> None:
        await asyncio.gather(*(each.end("the run is over") for each in [*owned] if not each.gone))


def _id(reply: Reply) -> str:
    """The id in the answer to a create; empty where it has none."""
    found = reply.body.get("sandboxID") if isinstance(reply.body, dict) else None
    return found if isinstance(found, str) else ""


def _unclear(why: str) -> Refusal:
    """Not to be repeated: what the first try may have made has to be gone before the next."""
    return Refusal(
        502,
        f"{why}, so that it is not known whether a sandbox was made; "
        "if so, it is killed: create another",
    )
