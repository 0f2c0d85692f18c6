"""One connection from a program in a sandbox through to a server outside."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from rsigym.local.sandbox.addresses import Address
from rsigym.local.sandbox.proxy_messages import Refusal, rewrite_response

__all__ = ["Destination", "Stream", "Traffic", "Tunnel"]

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class Destination:
    """What was checked and is connected to.

    Attributes:
        address: The very address.
        port: Its port.
        name: What it was looked up for, or None if the client gave the address.
    """

    address: Address
    port: int
    name: str | None


@dataclass
class Traffic:
    """Bytes between a sandbox and the world outside, what its connections carried.

    Attributes:
        sent: Out of the sandbox.
        received: Into it.
    """

    sent: int = 0
    received: int = 0


@dataclass(frozen=True)
class Stream:
    """The two halves of a TCP connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Returns once there is room for more."""
        self.writer.write(data)
        await self.writer.drain()

    def finish(self) -> None:
        """Says that no more will be sent."""
        if not self.writer.is_closing():
            with suppress(OSError):
                self.writer.write_eof()

    async def close(self, patience_s: float) -> None:
        """Ends it once all has been sent, or its other end has not read on for so long."""
        self.writer.close()
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self.writer.wait_closed()
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends it at once; whatever waits for it is woken."""
        self.writer.transport.abort()


class Tunnel:
    """Carries bytes both ways, each at the pace of its slower end, until both have finished.

    Attributes:
        destination: Where it leads.
    """

    def __init__(
        self,
        destination: Destination,
        client: Stream,
        server: Stream,
        traffic: Traffic,
        idle_s: float,
    ):
        self.destination = destination
        self._client, self._server = client, server
        self._traffic = traffic
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._moved_at = self._loop.time()
        self._watchdog = self._loop.call_later(idle_s, self._watch)

    async def carry(self) -> None:
        """A tunnel that was asked for with CONNECT; each side may finish before the other."""
        await asyncio.gather(
            self._pump(self._client, self._server, self._sent),
            self._pump(self._server, self._client, self._received),
        )

    async def exchange(self, request: bytes) -> None:
        """One plain HTTP exchange, over when the server has finished.

        Raises:
            Refusal: The server's answer is not HTTP; nothing of it was passed on.
        """
        await self._server.send(request)
        self._sent(len(request))
        up = asyncio.create_task(self._pump(self._client, self._server, self._sent))
        try:
            await self._pass_heads()
            await self._pump(self._server, self._client, self._received)
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)

    def cut(self) -> None:
        """Ends it at once, for both sides."""
        self._client.abort()
        self._server.abort()

    async def close(self) -> None:
        """Ends the server's side; the client's is closed by whoever accepted it."""
        await self._server.close(self._idle_s)
        self._watchdog.cancel()

    async def _pass_heads(self) -> None:
        last = False
        while not last:
            try:
                head = await self._server.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                raise Refusal(502, "the server ended without an HTTP answer") from None
            self._received(len(head))
            head, last = rewrite_response(head)
            await self._client.send(head)

    async def _pump(self, source: Stream, target: Stream, count: Callable[[int], None]) -> None:
        try:
            while data := await source.reader.read(_CHUNK_BYTES):
                count(len(data))
                await target.send(data)
                self._moved_at = self._loop.time()
            target.finish()
        except OSError:
            self.cut()  # one side has left, and what the other still says has no reader

    def _sent(self, size: int) -> None:
        self._traffic.sent += size

    def _received(self, size: int) -> None:
        self._traffic.received += size

    def _watch(self) -> None:
        left = self._moved_at + self._idle_s - self._loop.time()
        if left > 0:
            self._watchdog = self._loop.call_later(left, self._watch)
        else:
            self.cut()
