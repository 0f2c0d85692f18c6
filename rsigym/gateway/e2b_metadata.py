"""Whose a sandbox is, written into its metadata under names that callers cannot use or see."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from rsigym.gateway.e2b_errors import Refusal

__all__ = ["filtered", "stripped", "tagged", "tags_filter"]

_RESERVED = "rsigym."
_OWNER, _CREATE = "rsigym.owner", "rsigym.create"


def tagged(metadata: object, owner: str, create: str) -> dict[str, str]:
    """A caller's metadata with the tags of its owner and of this very create."""
    return {**_checked(metadata or {}), _OWNER: owner, _CREATE: create}


def stripped(sandbox: dict[str, Any]) -> dict[str, Any]:
    """A sandbox as its owner may see it."""
    metadata = sandbox.get("metadata")
    if not isinstance(metadata, Mapping):
        return sandbox
    shown = {name: value for name, value in metadata.items() if not _is_reserved(str(name))}
    return {**sandbox, "metadata": shown}


def filtered(query: str | None, owner: str) -> str:
    """The metadata filter of a list with the owner in it.

    Args:
        query: The caller's `metadata` parameter, decoded once: pairs that are still quoted twice.
    """
    pairs = {unquote(name): unquote(value) for name, value in parse_qsl(query or "", True)}
    return _encoded({**_checked(pairs), _OWNER: owner})


def tags_filter(*, owner: str | None = None, create: str | None = None) -> str:
    """A metadata filter for the platform's own tags."""
    wanted = {_OWNER: owner, _CREATE: create}
    return _encoded({name: value for name, value in wanted.items() if value is not None})


def _encoded(pairs: Mapping[str, str]) -> str:
    return urlencode({quote(name): quote(value) for name, value in pairs.items()})


def _checked(metadata: object) -> dict[str, str]:
    if not isinstance(metadata, Mapping):
        raise Refusal(400, "metadata must be an object of strings")
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise Refusal(400, "metadata must be an object of strings")
        if _is_reserved(name):
            raise Refusal(400, f"metadata names that begin with {_RESERVED!r} are reserved")
    return dict(metadata)


def _is_reserved(name: str) -> bool:
    return name.casefold().startswith(_RESERVED)
