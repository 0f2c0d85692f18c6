"""One sandbox at the hosted service that a run has made through the proxy."""

import asyncio
from dataclasses import dataclass, field

from rsigym.gateway.e2b_errors import Refusal
from rsigym.gateway.e2b_tenant import Tenant
from rsigym.operations.sandbox import SandboxCreate
from rsigym.services.sandbox_lease import Lease

__all__ = ["Owned"]


@dataclass(eq=False)
class Owned:
    """A sandbox that is running, paused or gone.

    Attributes:
        tenant: Whose it is.
        call: What was asked for.
        pauses: Whether it is paused, not killed, when its time is over.
        id: Its name at the hosted service; empty until it is made.
        lease: What it lives on; None while it is paused, and once it is gone.
        keeper: Keeps the lease.
        gone: Why it is there no more; empty while it is.
        lock: Held by whoever starts, pauses or ends it.
    """

    tenant: Tenant
    call: SandboxCreate
    pauses: bool
    id: str = ""
    lease: Lease | None = None
    keeper: asyncio.Task[None] | None = None
    gone: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def require(self) -> None:
        """
        Raises:
            Refusal: 404: it is gone; the message says why.
        """
        if self.gone:
            raise Refusal(404, f"sandbox {self.id} not found: {self.gone}")

    def release(self, *, unused: bool = False) -> None:
        """Book its time and give its slot back: it is paused, gone, or (unused) was never made."""
        lease, self.lease = self.lease, None
        if lease is None:
            return
        try:
            if unused:
                lease.abandon()
            else:
                lease.settle()
        finally:
            self.tenant.slots.give_back()
