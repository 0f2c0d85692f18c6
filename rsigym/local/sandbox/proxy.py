"""The HTTP proxy that is a sandbox's only way out, served from outside it.

It listens inside the sandbox's own network namespace and connects from the host's. A name is
looked up here and the connection goes to the very address that was checked, so an answer that
changes between the two changes nothing. What a tunnel carries is not looked at.
"""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass

from rsigym.local.sandbox.addresses import Address, read_address, read_name
from rsigym.local.sandbox.egress import Egress
from rsigym.local.sandbox.lookups import Lookups, Resolve
from rsigym.local.sandbox.proxy_messages import HEAD_BYTES, Refusal, Request, read_request
from rsigym.local.sandbox.tunnel import Destination, Stream, Traffic, Tunnel

__all__ = ["Bounds", "Proxy"]

_FAREWELL_S = 2.0


@dataclass(frozen=True)
class Bounds:
    """What one sandbox may take of the host's loop.

    Attributes:
        connections: At once; as many more are told that these are all, and others nothing.
        head_s: Seconds in which a request's head has to come.
        lookup_s: Seconds for a name server.
        connect_s: Seconds for each of the first four addresses of a name.
        idle_s: Seconds without a byte in either direction after which a connection is cut.
    """

    connections: int = 256
    head_s: float = 30.0
    lookup_s: float = 10.0
    connect_s: float = 5.0
    idle_s: float = 300.0


_MOST_ADDRESSES = 4


class Proxy:
    """Serves one listening socket; used on one event loop.

    Attributes:
        traffic: What has been carried so far.
    """

    def __init__(self, egress: Egress, resolve: Resolve, traffic: Traffic, bounds: Bounds):
        self._egress = egress
        self._lookups = Lookups(resolve)
        self._bounds = bounds
        self.traffic = traffic
        self._tunnels: set[Tunnel] = set()
        self._clients: dict[asyncio.Task[None], Stream] = {}
        self._server: asyncio.Server | None = None

    async def serve(self, listener: socket.socket) -> None:
        """Takes `listener` over and returns at once."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=HEAD_BYTES)

    def allow(self, egress: Egress) -> None:
        """Replaces the policy, and cuts at once what it does not allow any more."""
        self._egress = egress
        for tunnel in self._tunnels:
            if self._refusal(tunnel.destination):
                tunnel.cut()

    async def close(self) -> None:
        """Stops listening and cuts every connection."""
        if self._server is not None:
            self._server.close()
        for tunnel in self._tunnels:
            tunnel.cut()
        for task, client in self._clients.items():
            client.abort()
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Stream(reader, writer)
        most = self._bounds.connections
        if len(self._clients) >= 2 * most:
            client.abort()  # even a refusal keeps a descriptor for as long as its reader likes
            return
        full = len(self._clients) >= most
        task = asyncio.create_task(self._serve(client, full))
        self._clients[task] = client
        task.add_done_callback(self._clients.pop)

    async def _serve(self, client: Stream, full: bool) -> None:
        try:
            if full:
                raise Refusal(503, f"{self._bounds.connections} connections are open already")
            await self._relay(client, await self._request(client))
        except Refusal as refusal:
            await _farewell(client, refusal)
        except (OSError, asyncio.IncompleteReadError):
            client.abort()  # one of the two sides has left
        finally:
            await client.close(self._bounds.idle_s)

    async def _request(self, client: Stream) -> Request:
        try:
            async with asyncio.timeout(self._bounds.head_s):
                return read_request(await client.reader.readuntil(b"\r\n\r\n"))
        except TimeoutError:
            raise Refusal(408, "the request's head did not come in time") from None
        except asyncio.LimitOverrunError:
            raise Refusal(431, f"the request's head is over {HEAD_BYTES} bytes") from None

    async def _relay(self, client: Stream, request: Request) -> None:
        destination, server = await self._connect(await self._destinations(request))
        tunnel = Tunnel(destination, client, server, self.traffic, self._bounds.idle_s)
        self._tunnels.add(tunnel)
        try:
            if request.forward is None:
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await tunnel.carry()
            else:
                await tunnel.exchange(request.forward)
        finally:
            await tunnel.close()
            self._tunnels.discard(tunnel)

    async def _destinations(self, request: Request) -> list[Destination]:
        """Where the request leads: all of them are allowed, or it is refused."""
        try:
            address = read_address(request.host)
            name = read_name(request.host) if address is None else None
        except ValueError:
            raise Refusal(403, f"{request.host} is neither a host name nor an address") from None
        addresses = [address] if address else await self._look_up(str(name), request.port)
        destinations = [Destination(each, request.port, name) for each in addresses]
        for destination in destinations:
            if refusal := self._refusal(destination):
                raise Refusal(403, refusal)
        return destinations

    async def _look_up(self, name: str, port: int) -> list[Address]:
        if refusal := self._egress.refuses_name(name, port):
            raise Refusal(403, refusal)
        try:
            async with asyncio.timeout(self._bounds.lookup_s):
                addresses = await self._lookups.addresses(name)
        except TimeoutError:
            raise Refusal(504, f"looking {name} up took too long") from None
        except (OSError, ValueError):
            addresses = []
        if not addresses:
            raise Refusal(502, f"{name} could not be looked up")
        return addresses

    async def _connect(self, destinations: list[Destination]) -> tuple[Destination, Stream]:
        failure = Refusal(502, "there is no connection to the host")
        for destination in destinations[:_MOST_ADDRESSES]:
            where = f"{destination.name or destination.address} port {destination.port}"
            try:
                async with asyncio.timeout(self._bounds.connect_s):
                    server = await _dial(destination)
            except TimeoutError:
                failure = Refusal(504, f"{where} did not answer in time")
            except OSError as error:
                failure = Refusal(502, f"{where} cannot be reached: {error.strerror}")
            else:
                # The policy may have changed meanwhile, and only tunnels are cut when it does.
                if refusal := self._refusal(destination):
                    server.abort()
                    raise Refusal(403, refusal)
                return destination, server
        raise failure

    def _refusal(self, destination: Destination) -> str | None:
        return self._egress.refuses_address(destination.address, destination.port, destination.name)


async def _dial(destination: Destination) -> Stream:
    return Stream(
        *await asyncio.open_connection(str(destination.address), destination.port, limit=HEAD_BYTES)
    )


async def _farewell(client: Stream, refusal: Refusal) -> None:
    """Answers a client that may still be sending: to close on it would take the answer back."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            await client.send(refusal.response())
            client.finish()
            while await client.reader.read(HEAD_BYTES):
                pass
