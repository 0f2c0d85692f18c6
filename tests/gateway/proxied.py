"""The proxy at work in front of a local E2B server, with runs that may use it."""

import secrets
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from e2b import Sandbox

from rsigym.gateway.e2b_proxy import E2BProxy
from rsigym.gateway.e2b_tenant import Tenant
from rsigym.local.e2b.process import E2BServer
from rsigym.platform.journal import JOURNAL, Journal
from rsigym.platform.ledger import Balance
from rsigym.platform.meter import Meter
from rsigym.platform.permissions import Permissions, SandboxGrant
from rsigym.platform.sql_ledger import SQLLedger
from rsigym.services.endpoint import serve
from rsigym.services.loop import BackgroundLoop
from rsigym.services.sandbox_lease import Terms
from rsigym.services.sandbox_slots import SandboxSlots
from tests.hop import Hop
from tests.services.sandbox_bench import SECOND, eventually

__all__ = ["SECOND", "Proxied", "eventually"]

TERMS = Terms(millisecond=SECOND // 1000)


@dataclass
class Proxied:
    """A proxy, and the hop between it and the server."""

    server: E2BServer
    folder: Path
    terms: Terms = TERMS
    patience_s: float = 5.0
    loop: BackgroundLoop = field(default_factory=BackgroundLoop)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    permissions: dict[str, Permissions] = field(default_factory=dict)
    calls: int = 0

    def __post_init__(self) -> None:
        self.ledger = SQLLedger.sqlite(self.folder / "ledger.sqlite")
        self.journal = Journal(self.folder / JOURNAL)
        self.hop = Hop(self.server.url)
        self.loop.run(self.hop.start())
        self.proxy = E2BProxy(
            self.tenants.get,
            lambda: (self.hop.url, self.server.api_key),
            self.terms,
            patience_s=self.patience_s,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.stack = AsyncExitStack()
        self.loop.run(self.stack.enter_async_context(serve(listener, self.proxy.app)))

    def run(self, budget: int | None = None, **grant: Any) -> dict[str, Any]:
        """A new run; how its SDK is pointed at the proxy."""
        key, name = f"key-{secrets.token_hex(8)}", f"run-{len(self.tenants) + 1}"
        self.permissions[name] = Permissions(sandbox=SandboxGrant(**grant))
        self.ledger.open(name, budget)
        self.tenants[key] = Tenant(
            name, lambda: self.permissions[name], lambda: self.meter(name), SandboxSlots()
        )
        return {"api_url": self.url, "sandbox_url": self.server.url, "api_key": key}

    def meter(self, name: str) -> Meter:
        self.calls += 1
        return Meter(self.ledger, name, f"{name}/{self.calls:06d}", self.journal)

    def balance(self, run: dict[str, Any]) -> Balance:
        return self.ledger.balance(self.tenants[run["api_key"]].name)

    def occupied(self, run: dict[str, Any]) -> int:
        return self.tenants[run["api_key"]].slots.occupied.sandboxes

    def request(self, run: dict[str, Any], method: str, path: str, **kwargs: Any) -> httpx.Response:
        """What no SDK would send."""
        headers = {"X-API-KEY": run["api_key"], **kwargs.pop("headers", {})}
        return httpx.request(method, self.url + path, headers=headers, **kwargs)

    @property
    def hosted(self) -> dict[str, Any]:
        """How an SDK is pointed at the server behind."""
        return {
            "api_url": self.server.url,
            "sandbox_url": self.server.url,
            "api_key": self.server.api_key,
        }

    def upstream(self) -> set[str]:
        """The ids of the sandboxes that the server has."""
        return {info.sandbox_id for info in Sandbox.list(**self.hosted).next_items()}

    def close(self) -> None:
        self.loop.run(self.proxy.close())
        self.loop.run(self.stack.aclose())
        self.loop.run(self.hop.stop())
        self.loop.close()
        for tenant in self.tenants.values():
            assert self.ledger.open_holds(tenant.name) == []
            assert self.ledger.overdraft(tenant.name) == 0
            assert tenant.slots.occupied.sandboxes == 0
        self.journal.close()
        self.ledger.close()
