"""The sandboxes behind the E2B proxy: whose they are, and the leases that they live on."""

import asyncio
import contextlib
import secrets
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from rsigym.gateway.e2b_bodies import asked, create_body
from rsigym.gateway.e2b_errors import Refusal, Unreachable
from rsigym.gateway.e2b_metadata import tags_filter
from rsigym.gateway.e2b_owned import Owned
from rsigym.gateway.e2b_tenant import Tenant
from rsigym.gateway.e2b_upstream import Reply, Upstream
from rsigym.services.sandbox_lease import Lease, LeaseEnd, Terms
from rsigym.services.sandbox_reap import reap

__all__ = ["Sandboxes"]

_TWICE = 2
"""How often a request is made that can be repeated."""

_REASONS: dict[LeaseEnd, str] = {
    "expired": "its time was up",
    "exhausted": "the budget could not pay for more of its time",
    "lost": "the hosted service does not know it any more",
}


class Sandboxes:
    """Every sandbox of every run. Used on one event loop.

    Args:
        terms: What their time costs, and how much of it is held ahead.
        patience_s: How long a sandbox is looked for whose creation got no answer.
    """

    def __init__(self, upstream: Upstream, terms: Terms, patience_s: float = 10.0):
        self._upstream = upstream
        self._terms = terms
        self._patience_s = patience_s
        self._owned: dict[str, Owned] = {}
        self._background: set[asyncio.Task[Any]] = set()

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
        owned = self._owned.get(str(sandbox_id))
        mine = owned is not None and owned.tenant.name == tenant.name and not owned.gone
        return owned if mine else None

    async def create(self, tenant: Tenant, path: str, body: Mapping[str, Any]) -> Reply:
        """Make a sandbox; its slot and the first piece of its time are taken before anything else.

        Raises:
            Refusal, Failure: It is refused, or failed and costs nothing.
        """
        call = asked(body, tenant.permissions())
        tag = secrets.token_hex(16)
        owned = Owned(tenant, call, pauses=body.get("autoPause") is True)
        sent = create_body(body, call, seconds=1, owner=tenant.name, tag=tag)
        seconds = self._lease(owned, call.timeout_s)
        try:
            reply = await self._upstream.send("POST", path, {**sent, "timeout": seconds})
        except BaseException as error:
            maybe = not isinstance(error, Refusal) or getattr(error, "delivered", False)
            self._abandon(owned, tag if maybe else None)
            if maybe and isinstance(error, Unreachable):
                raise _unclear(error.message) from error
            raise
        if reply.status >= 500 or (reply.ok and not _id(reply)):
            self._abandon(owned, tag)
            raise _unclear(f"the E2B service answered {reply.status}")
        if not reply.ok:
            self._abandon(owned, None)
            return reply
        owned.id = _id(reply)
        self._owned[owned.id] = owned
        self._keep(owned)
        return reply

    async def connect(
        self, owned: Owned, path: str, body: Mapping[str, Any], seconds: int
    ) -> Reply:
        """Let it live for so many seconds at least, and resume it if it is paused."""
        async with owned.lock:
            owned.require()
            resuming = owned.lease is None
            if resuming:
                kept = self._lease(owned, max(1, seconds))
            else:
                assert owned.lease is not None
                if seconds > owned.lease.left_s:
                    await owned.lease.set_deadline(seconds)
                kept = owned.lease.kept_s
            sent = {**body, "timeout": kept}
            try:
                reply = await self._upstream.send("POST", path, sent, attempts=_TWICE)
            except BaseException:
                if resuming:
                    owned.release()
                raise
            if resuming and reply.ok:
                self._keep(owned)
            elif resuming:
                self._abandon(owned, None)
            return self._noticed(owned, reply)

    async def set_timeout(self, owned: Owned, seconds: int) -> None:
        """
        Raises:
            Refusal: 404: it is gone. 409: it is paused, and has no time that runs.
        """
        if owned.lease is None:
            raise Refusal(409, f"sandbox {owned.id} is paused")
        if not await owned.lease.set_deadline(seconds):
            self._end(owned, _REASONS["lost"])
        owned.require()

    async def pause(self, owned: Owned, body: Mapping[str, Any]) -> Reply:
        """Stop it, and the time that it pays for."""
        async with owned.lock:
            owned.require()
            reply = await self._upstream.send("POST", _path(owned, "/pause"), body)
            if reply.ok:
                self._stop_keeping(owned)
                owned.release()
            return self._noticed(owned, reply)

    async def kill(self, owned: Owned, why: str = "it was killed") -> Reply:
        async with owned.lock:
            owned.require()
            reply = await self._upstream.send("DELETE", _path(owned), attempts=_TWICE)
            if reply.ok or reply.status == 404:
                self._end(owned, why)
            return reply

    async def relay(
        self, owned: Owned, method: str, suffix: str, body: Any = None, params: Any = None
    ) -> Reply:
        """Pass on what changes nothing about its life."""
        path = _path(owned, suffix)
        reply = await self._upstream.send(method, path, body, params, attempts=_TWICE)
        return self._noticed(owned, reply)

    async def end(self, owned: Iterable[Owned], why: str) -> None:
        """Kill sandboxes, whatever happens; those that cannot be reached end by their timeout."""

        async def one(each: Owned) -> None:
            with contextlib.suppress(Refusal):
                await self.kill(each, why)
            self._end(each, why)

        await asyncio.gather(*(one(each) for each in owned if not each.gone))

    def of(self, name: str | None = None) -> list[Owned]:
        """The sandboxes of a run; of all, if None."""
        return [it for it in self._owned.values() if name in (None, it.tenant.name)]

    async def settled(self) -> None:
        """Wait until nothing is looked for any more."""
        await asyncio.gather(*self._background, return_exceptions=True)

    def _lease(self, owned: Owned, wanted_s: int) -> int:
        """Take a slot, and hold the first piece of time; answers its seconds.

        Raises:
            Refused, BudgetExhausted, ServiceFailure: One of them is not to be had.
        """
        tenant, call = owned.tenant, owned.call
        tenant.slots.take(lambda count: tenant.permissions().explain_found(call, count, None))
        try:
            meter = tenant.meter()
            seconds = self._terms.first_s(meter.free, wanted_s)
            meter.begin(call.op, self._terms.cost(seconds))
            meter.detach()
        except BaseException:
            tenant.slots.give_back()
            raise
        owned.lease = Lease(
            meter, self._terms, seconds, wanted_s, lambda left: self._extend(owned, left)
        )
        return seconds

    async def _extend(self, owned: Owned, seconds: int) -> bool:
        path = _path(owned, "/timeout")
        reply = await self._upstream.send("POST", path, {"timeout": seconds}, attempts=_TWICE)
        if not reply.ok and reply.status != 404:
            raise Refusal(502, f"the E2B service answered {reply.status} to a new timeout")
        return reply.ok

    def _keep(self, owned: Owned) -> None:
        assert owned.lease is not None
        owned.keeper = self._start(self._kept(owned, owned.lease))

    async def _kept(self, owned: Owned, lease: Lease) -> None:
        """Keep a lease to its end, and end the sandbox with it."""
        end = await lease.keep()
        if end == "expired" and owned.pauses:
            with contextlib.suppress(Refusal):
                await self.pause(owned, {})
        if owned.lease is lease:
            await self.end([owned], _REASONS[end])

    def _noticed(self, owned: Owned, reply: Reply) -> Reply:
        """A reply about a sandbox, which may say that there is none any more."""
        if reply.status == 404:
            self._end(owned, _REASONS["lost"])
        return reply

    def _end(self, owned: Owned, why: str) -> None:
        owned.gone = owned.gone or why
        self._stop_keeping(owned)
        owned.release()

    def _stop_keeping(self, owned: Owned) -> None:
        keeper, owned.keeper = owned.keeper, None
        if keeper is not None and keeper is not asyncio.current_task():
            keeper.cancel()

    def _abandon(self, owned: Owned, tag: str | None) -> None:
        """It was not made, and costs nothing.

        Args:
            tag: Of a create that may have made it all the same: then it is looked for first.
        """
        if tag is None:
            owned.release(unused=True)
        else:
            self._start(self._reap(owned, tag))

    async def _reap(self, owned: Owned, tag: str) -> None:
        async def find() -> list[str]:
            params = {"metadata": tags_filter(create=tag)}
            reply = await self._upstream.send("GET", "/v2/sandboxes", params=params)
            return [each["sandboxID"] for each in reply.body]

        async def kill(sandbox_id: str) -> None:
            await self._upstream.send("DELETE", f"/sandboxes/{quote(sandbox_id, safe='')}")

        try:
            await reap(find, kill, self._patience_s)
        finally:
            owned.release(unused=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _path(owned: Owned, suffix: str = "") -> str:
    return f"/sandboxes/{quote(owned.id, safe='')}{suffix}"


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
