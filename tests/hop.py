"""A connection that can fail: bytes on their way between the proxy and the server behind it."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Hop", "Request"]


@dataclass
class Request:
    """What was sent to the server: its first line, its headers and its body."""

    line: str
    headers: dict[str, str]
    body: Any


@dataclass
class Hop:
    """Passes requests on to a server, one answer each, and can spoil the answers.

    Attributes:
        spoil: In place of the next answer to a request whose first line contains the key: these
            bytes, once the server has answered; with None the connection is cut instead.
        instead: The same, of requests that the server never gets.
        seen: Every request, in order.
    """

    upstream: str
    spoil: dict[str, bytes | None] = field(default_factory=dict)
    instead: dict[str, bytes | None] = field(default_factory=dict)
    seen: list[Request] = field(default_factory=list)
    url: str = ""
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    def lines(self, start: str) -> list[Request]:
        return [request for request in self.seen if request.line.startswith(start)]

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            request, raw = await self._read(head, reader)
            self.seen.append(request)
            found, answer = _taken(self.instead, request)
            if not found:
                answer = await self._ask(raw)
                found, spoilt = _taken(self.spoil, request)
                answer = spoilt if found else answer
            if answer is None:
                writer.transport.abort()
            else:
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _read(self, head: bytes, reader: asyncio.StreamReader) -> tuple[Request, bytes]:
        line, *rest = head.decode().strip().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (each.partition(": ") for each in rest)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        kept = [each for each in rest if not each.lower().startswith("connection:")]
        raw = "\r\n".join([line, *kept, "Connection: close", "", ""]).encode() + body
        return Request(line, headers, json.loads(body) if body else None), raw

    async def _ask(self, raw: bytes) -> bytes | None:
        where = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(raw)
        answer = await reader.read()
        writer.close()
        return answer


def _taken(answers: dict[str, bytes | None], request: Request) -> tuple[bool, bytes | None]:
    """The answer that was prepared for a request, which is used up."""
    for part in answers:
        if part in request.line:
            return True, answers.pop(part)
    return False, None
