"""The one place where the server gets its sandboxes from, and decides where they may go."""

import tempfile
import uuid
from pathlib import Path

from rsigym.local.e2b.bodies import Network
from rsigym.local.e2b.errors import ApiError
from rsigym.local.e2b.settings import Settings
from rsigym.local.sandbox import Isolation, Limits, Sandbox
from rsigym.local.sandbox.warm import Warm

__all__ = ["LIMITS", "TEMPLATES", "Maker"]

LIMITS = Limits()
"""What each sandbox may use."""

TEMPLATES = ("base",)
"""What a sandbox can be made from: the host's programs."""


class Maker:
    """Makes sandboxes without a network, whatever their callers ask; keeps a few started."""

    def __init__(self, settings: Settings):
        """Made on the loop that the sandboxes are used on."""
        self._isolation: Isolation = settings.isolation
        self._warm = Warm(self._new, settings.warm)

    async def make(self, template: str, network: Network) -> Sandbox:
        """A started sandbox, the caller's from now on.

        Raises:
            ApiError: 404: there is no such template.
            OperatorError, ServiceFailure: It did not start.
        """
        if template not in TEMPLATES:
            raise ApiError(404, f"template {template!r} not found: there is {TEMPLATES[0]}")
        return await self._warm.take()

    async def set_network(self, sandbox: Sandbox, network: Network) -> None:
        """Nothing opens: the server gives its sandboxes no network."""

    async def close(self) -> None:
        """Ends the sandboxes that nobody has taken."""
        await self._warm.close()

    def _new(self) -> Sandbox:
        folder = Path(tempfile.gettempdir()) / f"rsigym-e2b-{uuid.uuid4().hex}"
        return Sandbox(folder, isolation=self._isolation, limits=LIMITS)
