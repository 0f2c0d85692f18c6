"""A world of the tests' own: two network namespaces, of which one plays this machine.

The other plays all that is outside. It has public, private and metadata addresses, and everything
that reaches it is written down. Between them is one cable (veth), and none leads anywhere else.
"""

import asyncio
import functools
import os
import subprocess
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

PUBLIC, PUBLIC_6 = "93.184.216.34", "2606:2800::34"
PRIVATE, METADATA, METADATA_6 = "10.0.0.5", "169.254.169.254", "fd00:ec2::254"
CARRIER, OTHER_PUBLIC = "100.64.0.9", "151.101.0.223"
OUTSIDE = (PUBLIC, PUBLIC_6, PRIVATE, METADATA, METADATA_6, CARRIER, OTHER_PUBLIC)
MACHINE = "185.199.108.1"  # the public address of the machine itself

NAMES = {
    "public.test": [PUBLIC],
    "six.test": [PUBLIC_6],
    "other.test": [OTHER_PUBLIC],
    "mirror.test": [PRIVATE],
    "metadata.test": [METADATA],
    "home.test": ["127.0.0.1"],
    "both.test": [PUBLIC, PRIVATE],
}


class World:
    """The two namespaces, each with a thread in it.

    Attributes:
        reached: (address, port, first line of the request) of what got through to any server.
        looked_up: The names that were.
        content: What is served, by path; elsewhere it is the address and the path.
    """

    def __init__(self) -> None:
        self.reached: list[tuple[str, int, str]] = []
        self.looked_up: list[str] = []
        self.content: dict[str, bytes] = {}
        self._outside = ThreadPoolExecutor(1, initializer=_own_network)
        self._machine = ThreadPoolExecutor(1, initializer=_own_network)
        outside, machine = (
            pool.submit(threading.get_native_id).result() for pool in (self._outside, self._machine)
        )
        _ip(f"link add cable type veth peer name far netns {outside}", machine)
        addresses = [f"addr add {_cidr(address)} dev far" for address in OUTSIDE]
        _lay(outside, "far", "192.0.2.2/24", "2001:db8::2/64", addresses)
        _lay(
            machine,
            "cable",
            "192.0.2.1/24",
            "2001:db8::1/64",
            [
                f"addr add {MACHINE}/32 dev lo",
                "route add default via 192.0.2.2",
                "-6 route add default via 2001:db8::2",
            ],
        )
        ready = Future[Callable[[], None]]()
        self._serving = self._outside.submit(asyncio.run, self._serve(ready))
        self._stop = ready.result(10)

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        """Runs `test` on a loop of its own, on the machine."""
        self.reached.clear()
        self.looked_up.clear()
        self.content.clear()
        self._machine.submit(asyncio.run, self._on_the_machine(test)).result()

    async def resolve(self, name: str) -> Sequence[str]:
        """The name server."""
        self.looked_up.append(name)
        if name not in NAMES:
            raise OSError("no such name")
        return NAMES[name]

    def close(self) -> None:
        self._stop()
        self._serving.result(10)
        self._outside.shutdown()
        self._machine.shutdown()

    async def _on_the_machine(self, test: Coroutine[Any, Any, None]) -> None:
        own = await asyncio.start_server(self._answer, "0.0.0.0", 80)
        async with own:
            await test

    async def _serve(self, ready: Future[Callable[[], None]]) -> None:
        servers = [
            await asyncio.start_server(self._answer, host, port)
            for host in ("0.0.0.0", "::")
            for port in (80, 443, 8080)
        ]
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        ready.set_result(lambda: loop.call_soon_threadsafe(stop.set) and None)
        await stop.wait()
        for server in servers:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address, port = writer.get_extra_info("sockname")[:2]
        try:
            first = (await reader.readline()).decode().strip()
            self.reached.append((address.removeprefix("::ffff:"), port, first))
            head = await reader.readuntil(b"\r\n\r\n")
            path = first.split()[1]
            if b"100-continue" in head:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if path.startswith("/to/"):
                writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://%b\r\n" % path[4:].encode())
                writer.write(b"Content-Length: 0\r\n\r\n")
            elif path == "/echo":
                await _echo(head, reader, writer)
            else:
                body = self.content.get(path, f"{address} {path}".encode())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(body))
                writer.write(b"Content-Type: text/html\r\n\r\n" + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, IndexError):
            pass
        finally:
            writer.close()


def in_world[**P](test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs an async test that takes the `world` fixture on the world's machine."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        world = kwargs["world"]
        assert isinstance(world, World)
        world.run(test(*args, **kwargs))

    return run


async def _echo(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if b"chunked" not in head.lower():
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(size)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + body)
        return
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        line = await reader.readline()
        chunk = await reader.readexactly(int(line, 16) + 2)
        writer.write(line + chunk)
        if chunk == b"\r\n":
            return


def _own_network() -> None:
    os.unshare(os.CLONE_NEWNET)


def _lay(thread: int, link: str, four: str, six: str, more: Sequence[str]) -> None:
    _ip("link set lo up", thread)
    _ip(f"addr add {four} dev {link}", thread)
    _ip(f"addr add {six} dev {link} nodad", thread)
    _ip(f"link set {link} up", thread)
    for words in more:
        _ip(words, thread)


def _ip(words: str, thread: int) -> None:
    inside = ["nsenter", f"--net=/proc/{thread}/ns/net", "ip", *words.split()]
    subprocess.run(inside, check=True)


def _cidr(address: str) -> str:
    # Without the check for duplicates, which takes a second of IPv6.
    return f"{address}/128 nodad" if ":" in address else f"{address}/32"
