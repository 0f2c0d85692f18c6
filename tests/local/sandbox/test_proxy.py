"""The egress proxy's protocol and bounds, between a client and servers on the loopback.

The servers' exact addresses are in the policy, as an operator may open them.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from rsigym.local.sandbox.egress import Egress
from rsigym.local.sandbox.proxy import Bounds, Proxy
from rsigym.local.sandbox.tunnel import Traffic
from tests.local.sandbox.support import on_loop

type Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
MIB = 1 << 20


@dataclass
class Scene:
    """A proxy, and a server behind it that is called server.test and counts its connections."""

    proxy: Proxy
    proxy_port: int
    port: int
    names: dict[str, list[str]]
    connections: list[object] = field(default_factory=list)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.proxy_port)

    async def say(self, text: bytes | str) -> bytes:
        """All that comes back for `text`, until the proxy hangs up."""
        reader, writer = await self.connect()
        writer.write(text if isinstance(text, bytes) else text.encode())
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        return answer

    async def tunnel(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(f"CONNECT server.test:{self.port} HTTP/1.1\r\n\r\n".encode())
        async with asyncio.timeout(20):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        return reader, writer


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An HTTP server that would go on with the connection."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n")
    writer.write(b"Keep-Alive: timeout=5\r\nContent-Length: 5\r\n\r\nhello")
    await writer.drain()
    writer.write_eof()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(MIB):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Waits for the end of a connection on which nothing more is said."""
    try:
        async with asyncio.timeout(20):
            return await reader.read() == b""
    except ConnectionResetError:
        return True


@asynccontextmanager
async def scene(handler: Handler = hello, bounds: Bounds | None = None) -> AsyncIterator[Scene]:
    connections = list[object]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    names = {"server.test": ["127.0.0.1"]}

    async def resolve(name: str) -> Sequence[str]:
        if name not in names:
            raise OSError("no such name")
        return names[name]

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=MIB)
    port = server.sockets[0].getsockname()[1]
    egress = Egress.only([f"server.test:{port}", f"*.deep.test:{port}", f"127.0.0.1:{port}"])
    proxy = Proxy(egress, resolve, Traffic(), bounds or Bounds())
    listener = socket.create_server(("127.0.0.1", 0))
    proxy_port = listener.getsockname()[1]
    await proxy.serve(listener)
    async with server:
        yield Scene(proxy, proxy_port, port, names, connections)
        await proxy.close()


@on_loop
async def test_a_request_goes_on_to_the_host_that_was_checked():
    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
        writer.write_eof()

    async with scene(repeat) as there:
        answer = await there.say(
            f"GET HTTP://server.test:{there.port}/a?b HTTP/1.1\r\nHost: another.test\r\n"
            "Proxy-Connection: keep-alive\r\nConnection: X-Mine\r\nX-Mine: 1\r\nX-Kept: 2\r\n"
            "Proxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\n\r\n"
        )
        port = there.port
        assert answer.partition(b"\r\n\r\n")[2].decode() == (
            f"GET /a?b HTTP/1.1\r\nHost: server.test:{port}\r\nX-Kept: 2\r\n"
            "Connection: close\r\n\r\n"
        )


@on_loop
async def test_a_server_that_would_go_on_is_made_to_end():
    async with scene() as there:
        answer = await there.say(f"GET http://server.test:{there.port}/ HTTP/1.1\r\n\r\n")
        assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


@on_loop
async def test_a_second_request_on_a_connection_goes_nowhere_else():
    async with scene() as there:
        one = f"GET http://server.test:{there.port}/ HTTP/1.1\r\n\r\n"
        two = "GET http://other.test/ HTTP/1.1\r\n\r\n"
        answer = await there.say(one + two)
        assert answer.count(b"HTTP/1.1") == 1
        assert answer.endswith(b"\r\nConnection: close\r\n\r\nhello")


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        ("GET / HTTP/1.1\r\nHost: server.test\r\n\r\n", 400),
        ("GET https://server.test/ HTTP/1.1\r\n\r\n", 400),
        ("GET http://user@server.test/ HTTP/1.1\r\n\r\n", 400),
        ("GET http:///x HTTP/1.1\r\n\r\n", 400),
        ("GET http://server.test:99999/ HTTP/1.1\r\n\r\n", 400),
        ("CONNECT server.test HTTP/1.1\r\n\r\n", 400),
        ("CONNECT server.test:0 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT user@server.test:443 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT server.test:443 HTTP/2\r\n\r\n", 400),
        ("CONNECT server.test:443 HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        ("CONNECT server.test:443 HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400),
        ("CONNECT server.test:443 HTTP/1.1\r\nno colon\r\n\r\n", 400),
        ("\x16\x03\x01 not http at all\r\n\r\n", 400),
        ("CONNECT s\u00e9rver.test:443 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT server..test:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT %31%32%37.0.0.1:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT 1.2.3.4.5:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT [::1%lo]:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT [server.test]:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT server.test:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT other.test:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT x:443 HTTP/1.1\r\nA: " + "a" * 70_000 + "\r\n\r\n", 431),
        ("CONNECT x:443 HTTP/1.1\r\n" + "A: b\r\n" * 20_000 + "\r\n", 431),
    ],
)
@on_loop
async def test_what_is_refused_is_said_in_a_sentence(request_head: str, status: int):
    async with scene() as there:
        answer = await there.say(request_head.encode("latin-1"))
        head, _, sentence = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status), answer
        assert b" " in sentence
        assert sentence.endswith(b"\n")
        assert there.connections == []


@on_loop
async def test_an_answer_that_is_not_http_is_a_bad_gateway():
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.test ESMTP\r\n\r\n")
        writer.write_eof()

    async with scene(speak) as there:
        answer = await there.say(f"GET http://server.test:{there.port}/ HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502 ")


@on_loop
async def test_a_name_that_cannot_be_found_or_reached_is_a_bad_gateway():
    async with scene() as there:
        there.names["dead.deep.test"] = ["127.0.0.1"]
        missing = await there.say(f"CONNECT missing.deep.test:{there.port} HTTP/1.1\r\n\r\n")
        assert missing.startswith(b"HTTP/1.1 502 ")
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        there.proxy.allow(Egress.only([f"dead.deep.test:{port}", f"127.0.0.1:{port}"]))
        dead = await there.say(f"CONNECT dead.deep.test:{port} HTTP/1.1\r\n\r\n")
        assert dead.startswith(b"HTTP/1.1 502 ")
        assert b"cannot be reached" in dead


@on_loop
async def test_slow_names_time_out_and_leave_other_connections_alone():
    never = asyncio.Event()

    async def resolve(name: str) -> Sequence[str]:
        if name == "slow.test":
            await never.wait()
        return ["127.0.0.1"]

    async with scene(echo) as there:
        port = there.port
        egress = Egress.only([f"{name}.test:{port}" for name in ("slow", "fast")])
        bounds = Bounds(lookup_s=0.2)
        proxy = Proxy(egress & egress, resolve, Traffic(), bounds)
        await proxy.serve(listener := socket.create_server(("127.0.0.1", 0)))
        slow = Scene(proxy, listener.getsockname()[1], port, {})
        answers = await asyncio.gather(
            *(slow.say(f"CONNECT slow.test:{port} HTTP/1.1\r\n\r\n") for _ in range(8))
        )
        assert {answer.split()[1] for answer in answers} == {b"504"}
        reader, writer = await there.tunnel()
        writer.write(b"still here")
        assert await reader.read(100) == b"still here"
        never.set()
        await proxy.close()


@on_loop
async def test_an_answer_that_changes_is_checked_again_and_what_was_checked_is_dialled():
    answers = iter([["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "10.0.0.1"]])
    asked = list[str]()

    async def resolve(name: str) -> Sequence[str]:
        asked.append(name)
        return next(answers)

    async with scene() as there:
        egress = Egress.only([f"rebind.test:{there.port}", f"127.0.0.1:{there.port}"])
        proxy = Proxy(egress, resolve, Traffic(), Bounds())
        await proxy.serve(listener := socket.create_server(("127.0.0.1", 0)))
        changing = Scene(proxy, listener.getsockname()[1], there.port, {})
        line = f"GET http://rebind.test:{there.port}/ HTTP/1.1\r\n\r\n"
        codes = [(await changing.say(line)).split()[1] for _ in range(3)]
        assert codes == [b"200", b"403", b"403"]
        assert len(asked) == 3  # once a request: nothing is looked up again to connect
        await proxy.close()


@on_loop
async def test_each_half_of_a_tunnel_ends_by_itself():
    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%d bytes" % len(await reader.read()))
        writer.write_eof()

    async with scene(count) as there:
        reader, writer = await there.tunnel()
        writer.write(b"x" * 100_000)
        writer.write_eof()
        assert await reader.read() == b"100000 bytes"
        assert there.proxy.traffic == Traffic(sent=100_000, received=12)

    said = asyncio.get_running_loop().create_future()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.write_eof()
        said.set_result(await reader.read())

    async with scene(greet) as there:
        reader, writer = await there.tunnel()
        assert await reader.read() == b"bye"
        writer.write(b"more")
        writer.write_eof()
        async with asyncio.timeout(20):
            assert await said == b"more"


@on_loop
async def test_a_client_that_is_torn_away_is_gone_for_the_server_too():
    left = asyncio.get_running_loop().create_future()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left.set_result(await ended(reader))

    async with scene(wait) as there:
        _, writer = await there.tunnel()
        own = writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        writer.transport.abort()
        async with asyncio.timeout(20):
            assert await left


@on_loop
async def test_a_client_that_does_not_read_keeps_the_server_waiting():
    sent = 0
    full = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(512):
            writer.write(b"x" * MIB)
            try:
                async with asyncio.timeout(1):
                    await writer.drain()
            except TimeoutError:
                full.set()
                return
            sent += MIB

    async with scene(flood) as there:
        _, writer = await there.tunnel()
        async with asyncio.timeout(30):
            await full.wait()
        assert sent < 128 * MIB
        writer.close()


@on_loop
async def test_200_connections_at_once_and_one_too_many():
    async with scene(echo, Bounds(connections=200)) as there:
        tunnels = await asyncio.gather(*(there.tunnel() for _ in range(200)))
        refused = await there.say("CONNECT server.test:1 HTTP/1.1\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 503 ")
        for number, (_, writer) in enumerate(tunnels):
            writer.write(b"%d" % number)
            writer.write_eof()
        echoed = await asyncio.gather(*(reader.read() for reader, _ in tunnels))
        assert echoed == [b"%d" % number for number in range(200)]
        for _, writer in tunnels:
            writer.close()
        async with asyncio.timeout(20):
            while True:  # as soon as those have gone there is room again
                answer = await there.say(f"GET http://server.test:{there.port}/ HTTP/1.1\r\n\r\n")
                if not answer.startswith(b"HTTP/1.1 503 "):
                    break
        assert answer.startswith(b"HTTP/1.1 502 ")  # the server repeats, which is not HTTP


@on_loop
async def test_who_says_nothing_is_sent_away():
    async with scene(silence, Bounds(head_s=0.2, idle_s=0.3)) as there:
        assert (await there.say("CONNECT server")).startswith(b"HTTP/1.1 408 ")
        reader, _ = await there.tunnel()
        assert await ended(reader)


@on_loop
async def test_a_refusal_arrives_although_the_body_is_still_on_its_way():
    async with scene() as there:
        head = "POST http://other.test/ HTTP/1.1\r\nContent-Length: 8388608\r\n\r\n"
        reader, writer = await there.connect()
        writer.write(head.encode() + b"x" * (8 * MIB))
        assert (await reader.readline()).startswith(b"HTTP/1.1 403 ")
        writer.close()


@on_loop
async def test_closing_ends_connections_at_every_stage():
    async with scene(silence) as there:
        idle, _ = await there.connect()
        reader, writer = await there.tunnel()
        writer.write(b"x")
        await there.proxy.close()
        for end in (idle, reader):
            assert await ended(end)
        with pytest.raises(ConnectionRefusedError):
            await there.connect()


@on_loop
async def test_clients_beyond_those_that_are_refused_cost_nothing():
    async with scene(silence, Bounds(connections=1)) as it:
        _, carried = await it.tunnel()
        reader, refused = await it.connect()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
        for _ in range(3):
            extra, writer = await it.connect()
            assert await ended(extra)
            writer.close()
        refused.close()
        carried.close()
