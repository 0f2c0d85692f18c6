"""The one place where the server gets a sandbox from."""

import tempfile
import uuid
from pathlib import Path

from rsigym.local.e2b.bodies import Network
from rsigym.local.e2b.errors import ApiError
from rsigym.local.e2b.settings import Settings
from rsigym.local.sandbox import Limits, Sandbox

__all__ = ["LIMITS", "TEMPLATES", "make_sandbox", "set_network"]

LIMITS = Limits()
"""What each sandbox may use."""

TEMPLATES = ("base",)
"""What a sandbox can be made from: the host's programs."""


async def make_sandbox(settings: Settings, template: str, network: Network) -> Sandbox:
    """A started sandbox without a network, whatever the caller asks.

    Raises:
        ApiError: 404: there is no such template.
        ServiceFailure: It did not start.
    """
    if template not in TEMPLATES:
        raise ApiError(404, f"template {template!r} not found: there is {', '.join(TEMPLATES)}")
    folder = Path(tempfile.gettempdir()) / f"rsigym-e2b-{uuid.uuid4().hex}"
    sandbox = Sandbox(folder, isolation=settings.isolation, limits=LIMITS)
    await sandbox.start()
    return sandbox


async def set_network(sandbox: Sandbox, network: Network) -> None:
    """Nothing opens: the server gives its sandboxes no network."""
