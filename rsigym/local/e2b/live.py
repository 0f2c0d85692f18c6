"""One sandbox as the control plane knows it."""

import asyncio
import os
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from rsigym.local.e2b.bodies import NewSandbox
from rsigym.local.e2b.envd import ENVD_VERSION, Envd
from rsigym.local.e2b.make import LIMITS

__all__ = ["LiveSandbox", "new_id"]

_ALPHABET = string.ascii_lowercase + string.digits


def new_id() -> str:
    """A sandbox's id, in the form that E2B's have."""
    return "i" + "".join(secrets.choice(_ALPHABET) for _ in range(19))


@dataclass(eq=False)
class LiveSandbox:
    """A sandbox that runs or is paused.

    Attributes:
        id: Unguessable, and no secret.
        number: Counts up with each sandbox: the order of the list.
        wanted: What it was created with.
        envd: Its data plane.
        started_at: When it was created.
        ends_at: When its time is up; a paused one keeps the time that it had.
        state: What its processes do.
        lock: Held while the state changes.
    """

    id: str
    number: int
    wanted: NewSandbox
    envd: Envd
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ends_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    state: Literal["running", "paused"] = "running"
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _timer: asyncio.TimerHandle | None = None

    def end_in(self, seconds: float, then: Callable[[], object]) -> None:
        """Calls `then` when this time is up, unless it is asked again before."""
        self.stop_timer()
        self.ends_at = datetime.now(UTC) + timedelta(seconds=seconds)
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def stop_timer(self) -> None:
        """Its time does not run while it is paused."""
        if self._timer is not None:
            self._timer.cancel()

    def seconds_left(self) -> float:
        """Less than none if its time is up, or was while it was paused."""
        return (self.ends_at - datetime.now(UTC)).total_seconds()

    def credentials(self) -> dict[str, Any]:
        """What whoever creates it, or connects to it, is given."""
        return {
            "sandboxID": self.id,
            "templateID": self.wanted.template,
            "clientID": "local",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": self.envd.token,
            "trafficAccessToken": None,
            "domain": None,
        }

    def listed(self) -> dict[str, Any]:
        """What a list says about it."""
        return {
            "sandboxID": self.id,
            "templateID": self.wanted.template,
            "alias": self.wanted.template,
            "clientID": "local",
            "startedAt": self.started_at.isoformat(),
            "endAt": self.ends_at.isoformat(),
            "state": self.state,
            "cpuCount": os.cpu_count() or 1,
            "memoryMB": LIMITS.memory_mb or 0,
            "diskSizeMB": LIMITS.disk_mb or 0,
            "envdVersion": ENVD_VERSION,
            "metadata": self.wanted.metadata,
            "volumeMounts": [],
        }

    def detail(self) -> dict[str, Any]:
        """What `info` says about it."""
        return {
            **self.listed(),
            "domain": None,
            "allowInternetAccess": not self.envd.sandbox.egress.is_none,
            "lifecycle": {
                "onTimeout": "pause" if self.wanted.auto_pause else "kill",
                "autoResume": self.auto_resumes,
            },
        }

    @property
    def auto_resumes(self) -> bool:
        """Whether using it resumes it."""
        return self.wanted.auto_resume is not None and self.wanted.auto_resume.enabled
