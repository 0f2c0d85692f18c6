"""Who may use a sandbox's data plane: its token, or an URL that somebody with the token signed."""

import base64
import binascii
import hashlib
import hmac
import time
from typing import Literal

from starlette.datastructures import Headers, QueryParams

from rsigym.local.e2b.errors import ApiError

__all__ = ["check_token", "check_user", "is_same", "is_signed"]

_ONE_USER = {"", "user", "root"}


def check_token(given: str | None, token: str, what: str) -> None:
    """
    Raises:
        ApiError: 401.
    """
    if not is_same(given, token):
        raise ApiError(401, f"the {what} is missing or wrong")


def is_same(given: str | None, token: str) -> bool:
    """Compared in a time that tells nothing about where they differ."""
    return given is not None and hmac.compare_digest(given.encode(), token.encode())


def check_user(headers: Headers, query: QueryParams) -> None:
    """
    Raises:
        ApiError: 401: another user than the one that a sandbox has is named.
    """
    name = query.get("username", "")
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            name = base64.b64decode(credentials, validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            raise ApiError(401, "the Authorization header is not `Basic` credentials") from None
    if name not in _ONE_USER:
        raise ApiError(
            401, f"invalid username: {name!r}: a local sandbox has one user, `user` and `root`"
        )


def _moment(expiration: str) -> int:
    return int(expiration) if expiration.isdecimal() else 0


def is_signed(query: QueryParams, operation: Literal["read", "write"], token: str) -> bool:
    """Whether the query carries the signature of this operation, by somebody with this token.

    Raises:
        ApiError: 401: it does, and its time is up.
    """
    expiration = query.get("signature_expiration")
    words = [query.get("path", ""), operation, query.get("username", ""), token]
    text = ":".join(words if expiration is None else [*words, expiration])
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
    given = query.get("signature", "").encode()
    if not hmac.compare_digest(given, b"v1_" + digest):
        return False
    if expiration is not None and time.time() > _moment(expiration):
        raise ApiError(401, "the signature has expired")
    return True
