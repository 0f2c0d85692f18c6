"""The heads of HTTP/1 messages that the egress proxy reads and writes."""

import re
from dataclasses import dataclass

__all__ = ["HEAD_BYTES", "Refusal", "Request", "read_request", "rewrite_response"]

HEAD_BYTES = 64 * 1024

_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})( [^\r\n\0]*)?")
_AUTHORITY = re.compile(r"(\[[^\[\]@/]*\]|[^:\[\]@/]+)(?::([0-9]{1,5}))?")
_ABSOLUTE = re.compile(r"http://([^/?#]*)([^#]*)", re.IGNORECASE)
_ONE_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade"} | {
    b"proxy-authorization",
    b"proxy-authenticate",
}
_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class Refusal(Exception):
    """What a client is told in place of a connection."""

    def __init__(self, status: int, sentence: str):
        super().__init__(status, sentence)
        self.status, self.sentence = status, sentence

    def response(self) -> bytes:
        """The whole HTTP response."""
        body = f"{self.sentence}\n".encode()
        return (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        ).encode() + body


@dataclass(frozen=True)
class Request:
    """What a client asks of the proxy.

    Attributes:
        host: As it was spelled; IPv6 in brackets.
        port: Of the host.
        forward: The head to send on, or None for a tunnel.
    """

    host: str
    port: int
    forward: bytes | None


def read_request(head: bytes) -> Request:
    """Reads a head that ends with an empty line.

    What goes on to the server names the host that was checked, whatever `Host` said, and asks for
    the connection's end after one response: the next request may be for another host.

    Raises:
        Refusal: It is not a request to a proxy.
    """
    first, *lines = head.removesuffix(b"\r\n\r\n").removeprefix(b"\r\n").split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise Refusal(400, "this is not an HTTP/1 request")
    method, target = line[1], line[2].decode()
    fields = _fields(lines, Refusal(400, "a field of the request's head is malformed"))
    if method == b"CONNECT":
        host, port = _authority(target, None)
        return Request(host, port, None)
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise Refusal(400, "this is a proxy: ask it for http://host/path, or CONNECT host:port")
    host, port = _authority(absolute[1], 80)
    path = absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"
    kept = [field for field in _end_to_end(fields) if field[0].lower() != b"host"]
    start = b"%s %s HTTP/1.1" % (method, path.encode())
    return Request(host, port, _head(start, [(b"Host", absolute[1].encode()), *kept]))


def rewrite_response(head: bytes) -> tuple[bytes, bool]:
    """A server's head as the client gets it, and whether it is the last of this response.

    Raises:
        Refusal: It is not HTTP/1.
    """
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise Refusal(502, "the server's answer is not HTTP/1")
    if status[1].startswith(b"1"):
        return head, False
    fields = _fields(lines, Refusal(502, "a field of the server's answer is malformed"))
    return _head(first, _end_to_end(fields)), True


def _fields(lines: list[bytes], malformed: Refusal) -> list[tuple[bytes, bytes]]:
    fields = [_FIELD.fullmatch(line) for line in lines]
    if not all(fields):
        raise malformed
    return [(field[1], field[2]) for field in fields if field]


def _end_to_end(fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    named = b",".join(value for name, value in fields if name.lower() == b"connection")
    dropped = _ONE_HOP | {word.strip().lower() for word in named.split(b",")}
    return [field for field in fields if field[0].lower() not in dropped]


def _head(start: bytes, fields: list[tuple[bytes, bytes]]) -> bytes:
    lines = [b"%s: %s" % field for field in (*fields, (b"Connection", b"close"))]
    return b"\r\n".join([start, *lines, b"", b""])


def _authority(text: str, default_port: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    port = int(found[2]) if found and found[2] else default_port
    if found is None or port is None or not 0 < port < 1 << 16:
        raise Refusal(400, "the host has to be written as name:port, without a user")
    return found[1], port
