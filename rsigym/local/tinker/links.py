"""Links that open one path for a while, without the key: the SDK downloads weights by them."""

import hashlib
import hmac
import secrets
import time
from urllib.parse import parse_qs, urlencode

__all__ = ["Links"]


class Links:
    """Signs and checks paths, with a secret that no one else has and that ends with the server."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def sign(self, path: str, expires: int) -> str:
        """`path` with a query that opens it until `expires`, in seconds since the epoch."""
        signature = self._signature(path, str(expires))
        return f"{path}?{urlencode({'expires': expires, 'signature': signature})}"

    def opens(self, path: str, query: str) -> bool:
        """Whether `query` is what `sign` made for this path, and its time is not over."""
        given = parse_qs(query)
        expires, signature = (given.get(name, [""])[0] for name in ("expires", "signature"))
        expected = self._signature(path, expires)
        genuine = hmac.compare_digest(signature.encode(), expected.encode())
        return genuine and time.time() < int(expires)

    def _signature(self, path: str, expires: str) -> str:
        return hmac.new(self._secret, f"{expires} {path}".encode(), hashlib.sha256).hexdigest()
