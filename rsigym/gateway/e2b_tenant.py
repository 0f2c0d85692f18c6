"""A run as the E2B proxy knows it: what it may, who pays, and how many sandboxes it has."""

from collections.abc import Callable
from dataclasses import dataclass

from rsigym.platform.meter import Meter
from rsigym.platform.permissions import Permissions
from rsigym.platform.run import Run
from rsigym.services.sandbox_slots import SandboxSlots

__all__ = ["Tenant", "Tenants"]


@dataclass(frozen=True)
class Tenant:
    """A run.

    Attributes:
        name: Its id, by which its sandboxes are told from others'.
        permissions: What it is allowed now.
        meter: Makes the meter of a new call on its account; nothing is held yet.
        slots: Its sandboxes, counted through whichever door they were made.
    """

    name: str
    permissions: Callable[[], Permissions]
    meter: Callable[[], Meter]
    slots: SandboxSlots

    @classmethod
    def of(cls, run: Run, slots: SandboxSlots) -> "Tenant":
        """The tenant that a run is."""
        return cls(run.id, lambda: run.permissions, run.meter, slots)


type Tenants = Callable[[str], Tenant | None]
"""The run behind a platform key; None where there is none."""
