"""What a caller may say about a sandbox, and what is said to the hosted service instead."""

from collections.abc import Mapping
from typing import Any

from rsigym.gateway.e2b_errors import Refusal
from rsigym.gateway.e2b_metadata import tagged
from rsigym.operations.sandbox import SandboxCreate
from rsigym.platform.decision import Decision
from rsigym.platform.parse import parse
from rsigym.platform.permissions import Permissions

__all__ = [
    "CLOSED",
    "asked",
    "connect_body",
    "create_body",
    "pause_body",
    "timeout_of",
]

_NETWORK: Mapping[str, Any] = {"allowOut": [], "denyOut": ["0.0.0.0/0"]}
"""The network of a sandbox without internet, in place of whatever the caller gave: an `allowOut`
of its own would outweigh `allow_internet_access: false`."""

CLOSED: Mapping[str, Any] = {**_NETWORK, "allow_internet_access": False}
"""The same, as it is said to a sandbox that runs."""

_DEFAULT_TIMEOUT_S = 15
_PASSED = ("envVars", "autoPause", "autoPauseMemory")
_DECIDED = (
    "templateID",
    "timeout",
    "metadata",
    "allow_internet_access",
    "network",
    "autoResume",
    "secure",
)


def asked(body: Mapping[str, Any], permissions: Permissions) -> SandboxCreate:
    """The create that a body asks for, as far as the grant goes: its internet may be taken away.

    E2B's callers get the internet without asking for it, so to have none is no refusal.

    Raises:
        Failure: It is not valid, or not allowed.
    """
    wanted = body.get("allow_internet_access") is not False
    decision, call = _decided(body, wanted, permissions)
    if not decision.allowed and decision.rule == "sandbox.internet":
        decision, call = _decided(body, False, permissions)
    decision.require()
    return call


def create_body(
    body: Mapping[str, Any], call: SandboxCreate, *, owner: str, tag: str
) -> dict[str, Any]:
    """What the hosted service is asked for, all but how long it is to keep the sandbox.

    Args:
        tag: Unique to this create.

    Raises:
        Refusal: The body has something that this proxy does not pass on.
    """
    unknown = [name for name in body if name not in _PASSED + _DECIDED and body[name]]
    if body.get("autoResume") not in (None, {"enabled": False}):
        # Traffic would start it again without anybody being asked, or paying.
        unknown.append("autoResume")
    if unknown:
        raise Refusal(501, f"the platform does not support {', '.join(sorted(unknown))}")
    network = {"network": body["network"]} if call.internet and body.get("network") else {}
    return {
        **{name: body[name] for name in _PASSED if name in body},
        "templateID": call.template,
        "metadata": tagged(body.get("metadata"), owner, tag),
        "allow_internet_access": call.internet,
        **(network if call.internet else {"network": _NETWORK}),
    }


def connect_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a connect is passed on with, all but its timeout."""
    return _only(body, "memory")


def pause_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a pause is passed on with."""
    return _only(body, "memory", "requireHealthyGuest")


def timeout_of(body: Mapping[str, Any]) -> int:
    """The seconds of a connect or a set_timeout.

    Raises:
        Refusal: They are no whole number that a sandbox may be asked to live.
    """
    seconds = body.get("timeout", _DEFAULT_TIMEOUT_S)
    if type(seconds) is not int or not 0 <= seconds <= 86_400:
        raise Refusal(400, f"timeout must be between 0 and 86400 seconds, not {seconds!r}")
    return seconds


def _only(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def _decided(
    body: Mapping[str, Any], internet: bool, permissions: Permissions
) -> tuple[Decision, SandboxCreate]:
    args = {
        "internet": internet,
        "timeout_s": body.get("timeout", _DEFAULT_TIMEOUT_S),
        "template": body.get("templateID"),
    }
    call = parse({"op": "sandbox.create", "args": args})
    assert isinstance(call, SandboxCreate)
    return permissions.explain(call), call
