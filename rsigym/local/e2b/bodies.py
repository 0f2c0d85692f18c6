"""What the control plane is asked: the bodies of its requests."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rsigym.local.e2b.errors import ApiError

__all__ = ["Connect", "Network", "NewSandbox", "Pause", "SetTimeout"]

DEFAULT_TIMEOUT_S = 300


class _Body(BaseModel):
    """Strict, and deaf to what newer SDKs add."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Network(_Body):
    """Where a sandbox may go, in E2B's terms.

    Attributes:
        allow_internet_access: False closes everything that `allow_out` does not name.
        allow_out: Names, addresses and ranges that stay open.
        deny_out: Addresses and ranges that are closed; `0.0.0.0/0` is everything.
    """

    allow_internet_access: bool | None = None
    allow_out: list[str] = Field(default=[], alias="allowOut")
    deny_out: list[str] = Field(default=[], alias="denyOut")
    rules: dict[str, Any] | None = None
    egress_proxy: dict[str, Any] | None = Field(default=None, alias="egressProxy")
    dns_servers: list[str] | None = Field(default=None, alias="dnsServers")

    def check(self) -> None:
        """
        Raises:
            ApiError: 501: it asks for what is not built.
        """
        for name in ("rules", "egress_proxy", "dns_servers"):
            _unsupported(f"network.{name}", getattr(self, name))


class _AutoResume(_Body):
    enabled: bool


class NewSandbox(_Body):
    """`POST /v2/sandboxes`."""

    template: str = Field(alias="templateID")
    timeout: int = Field(default=DEFAULT_TIMEOUT_S, ge=0)
    metadata: dict[str, str] = {}
    envs: dict[str, str] = Field(default={}, alias="envVars")
    auto_pause: bool = Field(default=False, alias="autoPause")
    auto_pause_memory: bool = Field(default=True, alias="autoPauseMemory")
    auto_resume: _AutoResume | None = Field(default=None, alias="autoResume")
    allow_internet_access: bool | None = None
    network: Network | None = None
    mcp: dict[str, Any] | None = None
    iam: dict[str, Any] | None = None
    volumes: list[Any] | None = Field(default=None, alias="volumeMounts")

    def check(self) -> None:
        """
        Raises:
            ApiError: 501: it asks for what is not built.
        """
        for name in ("mcp", "iam", "volumes"):
            _unsupported(name, getattr(self, name))
        if self.network is not None:
            self.network.check()

    @property
    def wanted_network(self) -> Network:
        """The two ways to say it, as one."""
        network = self.network or Network()
        return network.model_copy(update={"allow_internet_access": self.allow_internet_access})


class SetTimeout(_Body):
    """`POST …/timeout`."""

    timeout: int = Field(ge=0)


class Connect(_Body):
    """`POST …/connect`; `memory` false starts a paused sandbox without its processes."""

    timeout: int = Field(default=DEFAULT_TIMEOUT_S, ge=0)
    memory: bool = True


class Pause(_Body):
    """`POST …/pause`; `memory` false keeps the files only."""

    memory: bool = True


def _unsupported(name: str, value: object) -> None:
    if value:
        raise ApiError(501, f"the local E2B server does not support `{name}`")
