"""What programs in a sandbox reach, tried from inside with their usual clients.

All of it happens in the namespaces of `world`: no packet leaves them.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from rsigym.local.sandbox import Egress, Isolation, Output, Sandbox
from rsigym.local.sandbox.warm import Warm
from tests.local.sandbox.support import on_loop, output
from tests.local.sandbox.world import (
    CARRIER,
    MACHINE,
    METADATA,
    METADATA_6,
    OTHER_PUBLIC,
    PRIVATE,
    PUBLIC,
    PUBLIC_6,
    World,
    in_world,
)

CURL = "curl -sS --max-time 20 -o - -w ' %{http_code}'"

KNOCK = """
import socket, sys
for host in sys.argv[1:]:
    for target in (f"CONNECT {host}:80", f"GET http://{host}/"):
        with socket.create_connection(("127.0.0.1", 3128)) as link:
            link.sendall(f"{target} HTTP/1.1\\r\\nHost: public.test\\r\\n\\r\\n".encode())
            print(link.makefile().readline().split()[1])
"""


@asynccontextmanager
async def let_out(folder: Path, world: World, egress: Egress | None) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(
        folder / "sandbox", isolation="bubblewrap", egress=egress, resolve=world.resolve
    )
    async with sandbox:
        yield sandbox


async def get(sandbox: Sandbox, url: str) -> str:
    """What curl prints: the body and the status."""
    result = await sandbox.exec(f"{CURL} '{url}'")
    return (result.stdout + result.stderr).decode()


@in_world
async def test_public_hosts_are_reached_by_name_and_address(
    folder: Path, bubblewrap: Isolation, world: World
):
    async with let_out(folder, world, Egress.public()) as sandbox:
        assert await get(sandbox, "http://public.test/a?b=c") == f"{PUBLIC} /a?b=c 200"
        assert await get(sandbox, "http://six.test/") == f"{PUBLIC_6} / 200"
        assert await get(sandbox, f"http://{PUBLIC}/") == f"{PUBLIC} / 200"
        assert await get(sandbox, f"http://[{PUBLIC_6}]/") == f"{PUBLIC_6} / 200"
        assert "501" not in await get(sandbox, "http://public.test/")
        assert sandbox.traffic.sent > 0 < sandbox.traffic.received


@in_world
async def test_nothing_else_is_reached(folder: Path, bubblewrap: Isolation, world: World):
    hosts = [
        *("mirror.test", "metadata.test", "home.test", "both.test"),
        *(PRIVATE, METADATA, CARRIER, MACHINE, "127.0.0.2", "0.0.0.0"),
        *("[::1]", f"[{METADATA_6}]", f"[::ffff:{PRIVATE}]", "[64:ff9b::10.0.0.5]", "[fe80::1]"),
        *("2130706434", "0x7f.2", "0177.0.0.2", "127.2", "[::ffff:7f00:2]", "[2002:a00:5::1]"),
        "no-such-name.test",
    ]
    async with let_out(folder, world, Egress.public()) as sandbox:
        result = await sandbox.exec("python3 - " + " ".join(hosts), stdin=KNOCK.encode())
        codes = result.stdout.decode().split()
    assert codes == ["403", "403"] * (len(hosts) - 1) + ["502", "502"], codes
    assert world.reached == []


@in_world
async def test_without_egress_there_is_no_proxy(folder: Path, bubblewrap: Isolation, world: World):
    async with let_out(folder, world, None) as sandbox:
        assert "refused" in (await sandbox.exec("exec 3<>/dev/tcp/127.0.0.1/3128")).stderr.decode()
        assert await output(sandbox, "env | grep -ci proxy || true") == "0"
        await sandbox.set_egress(Egress.public())
        assert await output(sandbox, "env | grep -ci proxy || true") == "0"
        direct = await sandbox.exec(f"exec 3<>/dev/tcp/{PUBLIC}/80")
        assert "unreachable" in direct.stderr.decode()
    assert world.reached == []


@in_world
async def test_only_the_hosts_of_the_list_are_reached(
    folder: Path, bubblewrap: Isolation, world: World
):
    async with let_out(folder, world, Egress.only(["public.test"])) as sandbox:
        assert await get(sandbox, "http://public.test/") == f"{PUBLIC} / 200"
        refused = await get(sandbox, "http://other.test/")
        assert refused.startswith("other.test port 80 is not among the hosts")
        assert refused.endswith("403")
        assert (await get(sandbox, f"http://{PUBLIC}/")).endswith("403")
        assert (await get(sandbox, "http://public.test:8080/")).endswith("403")
        assert "403" in await get(sandbox, "https://other.test/")
    assert world.looked_up == ["public.test"]  # a lookup would have told others' name servers
    assert {address for address, _, _ in world.reached} == {PUBLIC}


@in_world
async def test_an_operator_may_open_one_private_address(
    folder: Path, bubblewrap: Isolation, world: World
):
    grant = Egress.only(["mirror.test", PRIVATE, "10.0.0.0/8"])
    async with let_out(folder, world, grant) as sandbox:
        assert await get(sandbox, "http://mirror.test/") == f"{PRIVATE} / 200"
        assert (await get(sandbox, "http://10.0.0.6/")).endswith("403")
        assert (await get(sandbox, f"http://{PRIVATE}:8080/")).endswith("403")


@in_world
async def test_a_caller_cannot_open_what_the_grant_does_not(
    folder: Path, bubblewrap: Isolation, world: World
):
    async with let_out(folder, world, Egress.public()) as sandbox:
        await sandbox.set_egress(Egress.only(["mirror.test", PRIVATE, "other.test"]))
        assert (await get(sandbox, f"http://{PRIVATE}/")).endswith("403")
        assert (await get(sandbox, "http://public.test/")).endswith("403")
        assert (await get(sandbox, "http://other.test/")).endswith("200")
        await sandbox.set_egress(Egress.public())
        assert (await get(sandbox, "http://public.test/")).endswith("200")
    assert {address for address, _, _ in world.reached} == {PUBLIC, OTHER_PUBLIC}


@in_world
async def test_a_warm_sandbox_gets_the_way_out_of_whoever_takes_it(
    folder: Path, bubblewrap: Isolation, world: World
):
    def make() -> Sandbox:
        return Sandbox(
            folder / uuid.uuid4().hex,
            isolation=bubblewrap,
            egress=Egress.public(),
            resolve=world.resolve,
        )

    warm = Warm(make, 2)
    offline, narrow = await warm.take(), await warm.take()
    async with AsyncExitStack() as stack:
        for each in (warm, offline, narrow):
            stack.push_async_callback(each.close)
        await offline.set_egress(Egress.none())
        await narrow.set_egress(Egress.only(["other.test"]))
        assert await output(offline, "echo $https_proxy") == ""
        assert await output(narrow, "echo $https_proxy") == "http://127.0.0.1:3128"
        assert "Failed to connect" in await get(offline, f"http://{PUBLIC}/")
        assert (await get(narrow, "http://public.test/")).endswith("403")
        assert (await get(narrow, "http://other.test/")).endswith("200")
        process = await narrow.spawn("echo $https_proxy")
        assert await process.read() == Output("stdout", b"http://127.0.0.1:3128\n")
        await offline.set_egress(Egress.public())
        assert (await get(offline, "http://public.test/")).endswith("200")


@in_world
async def test_a_redirect_is_checked_like_any_request(
    folder: Path, bubblewrap: Isolation, world: World
):
    async with let_out(folder, world, Egress.public()) as sandbox:
        there = await sandbox.exec(f"{CURL} -L http://public.test/to/other.test/x")
        assert there.stdout.decode() == f"{OTHER_PUBLIC} /x 200"
        for host in (METADATA, "metadata.test", "home.test"):
            refused = await sandbox.exec(f"{CURL} -L http://public.test/to/{host}/x")
            assert refused.stdout.decode().endswith(" 403")
    assert {address for address, _, _ in world.reached} == {PUBLIC, OTHER_PUBLIC}


@in_world
async def test_open_tunnels_are_cut_when_they_are_no_longer_allowed(
    folder: Path, bubblewrap: Isolation, world: World
):
    program = """
import http.client, sys
links = []
for host in ("public.test", "other.test"):
    link = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
    link.set_tunnel(host, 80)
    link.connect()
    links.append(link)
print("open", flush=True)
open("/app/open", "w").close()
for link in links:
    try:
        print(len(link.sock.recv(1)), flush=True)
    except ConnectionResetError:
        print(0)
    links[1].request("GET", "/after")
    links[1].getresponse().read()
    print("after")
    break
"""
    async with let_out(folder, world, Egress.public()) as sandbox:
        running = asyncio.create_task(sandbox.exec("python3 -", stdin=program.encode()))
        while (await sandbox.exec("test -e /app/open")).exit_code:
            assert not running.done()
        await sandbox.set_egress(Egress.only(["other.test"]))
        assert (await running).stdout.decode() == "open\n0\nafter\n"
        await sandbox.set_egress(Egress.none())
        assert (await sandbox.exec("exec 3<>/dev/tcp/127.0.0.1/3128")).exit_code != 0


@in_world
async def test_bodies_go_both_ways_in_any_framing(
    folder: Path, bubblewrap: Isolation, world: World
):
    async with let_out(folder, world, Egress.public()) as sandbox:
        await output(sandbox, "head -c 3000000 /dev/urandom > in")
        for framing in ("", "-H 'Transfer-Encoding: chunked'", "-H 'Expect: 100-continue'"):
            send = f"curl -sS --max-time 20 {framing} --data-binary @in http://public.test/echo"
            await output(sandbox, f"{send} | cmp - in")


HOG = """
import socket, threading
links = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(300)]
for link in links:
    try:
        link.sendall(b"CONNECT public.test:80 HTTP/1.1\\r\\n\\r\\n")
    except OSError:
        pass  # one too many, and already told so
open("/app/hogging", "w").close()
threading.Event().wait()
"""


@in_world
async def test_a_sandbox_that_takes_all_it_can_leaves_its_neighbour_alone(
    folder: Path, bubblewrap: Isolation, world: World
):
    async with (
        let_out(folder / "hog", world, Egress.public()) as hog,
        let_out(folder / "neighbour", world, Egress.public()) as neighbour,
    ):
        hogging = asyncio.create_task(hog.exec("python3 -", stdin=HOG.encode()))
        while (await hog.exec("test -e /app/hogging")).exit_code:
            assert not hogging.done()
        assert "connections are open already" in await get(hog, "http://public.test/")
        assert (await get(neighbour, "http://public.test/")).endswith("200")
        await hog.kill_all()
        await hogging
        async with asyncio.timeout(20):
            while not (await get(hog, "http://public.test/")).endswith("200"):
                pass  # until the proxy has seen all of them leave


@in_world
async def test_python_and_git_find_the_way_out_by_themselves(
    folder: Path, bubblewrap: Isolation, world: World
):
    fetch = "import urllib.request as u; print(u.urlopen('http://public.test/').read().decode())"
    async with let_out(folder, world, Egress.public()) as sandbox:
        assert await output(sandbox, f'python3 -c "{fetch}"') == f"{PUBLIC} /"
        with await sandbox.listen(8080) as own:
            own.setblocking(False)
            await output(sandbox, "(curl -s http://127.0.0.1:8080/ || true) > /dev/null 2>&1 &")
            link, _ = await asyncio.get_running_loop().sock_accept(own)  # not through the proxy
            link.close()
        if (await sandbox.exec("command -v git")).exit_code == 0:
            await sandbox.exec("git ls-remote http://public.test/repository.git")
            path = "/repository.git/info/refs?service=git-upload-pack"
            assert (PUBLIC, 80, f"GET {path} HTTP/1.1") in world.reached


@on_loop
async def test_plain_processes_have_the_network_of_the_machine(tmp_path: Path):
    sandbox = Sandbox(tmp_path / "sandbox", isolation="process", egress=Egress.public())
    async with sandbox:
        assert await output(sandbox, "env | grep -ci proxy || true") == "0"


@pytest.mark.parametrize("asked", [Egress.public(), Egress.only(["public.test"])])
@in_world
async def test_a_grant_of_nothing_wins(
    folder: Path, bubblewrap: Isolation, world: World, asked: Egress
):
    async with let_out(folder, world, Egress.none()) as sandbox:
        await sandbox.set_egress(asked)
        assert (await sandbox.exec("exec 3<>/dev/tcp/127.0.0.1/3128")).exit_code != 0
