"""What a sandbox costs by the E2B SDK, beside what the runtime itself takes.

The unmodified SDK speaks to a local E2B server; the same create and the same command are also done
on the runtime, without server and HTTP, in the same run. The quotient is what the wire costs, and
holds where milliseconds do not.

    python perf/sandbox.py [--sandboxes 32] [--json]
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import e2b

from rsigym.local import e2b_server
from rsigym.local.sandbox import Sandbox, choose_isolation

MB = 10**6
LARGE_MB = 100
PAUSE_S = 0.5


@dataclass(frozen=True)
class Line:
    """One measurement, and what it should be: at most, or at least where more is better."""

    what: str
    value: float
    unit: str
    target: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description="What a sandbox costs by the E2B SDK.")
    parser.add_argument("--sandboxes", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with e2b_server(max_sandboxes=arguments.sandboxes, warm=0) as server:
        os.environ |= server.environment
        lines = asyncio.run(cold())
        lines += asyncio.run(many(server.pid, arguments.sandboxes))
    with e2b_server() as server:
        os.environ |= server.environment
        lines += asyncio.run(warm())
        lines += asyncio.run(one_at_a_time())
        lines += asyncio.run(large())
    if arguments.json:
        json.dump({line.what: line.value for line in lines}, sys.stdout, indent=2)
        return
    for line in lines:
        print(f"{line.what:<44}{line.value:>10.1f} {line.unit:<14}{line.target}")


async def cold() -> list[Line]:
    """Creating, where none is started beforehand: SDK and runtime by turns."""
    created, bare = [], []
    for _ in range(20):
        bare.append(await start())
        created.append(await create())
    return [
        Line("create, cold", middle(created), "ms, p50", "<= 70"),
        Line("  the runtime's own start", middle(bare), "ms, p50"),
        Line("  SDK / runtime", middle(created) / middle(bare), "x"),
    ]


async def warm() -> list[Line]:
    """Creating, where some are: there is time between two to start the next."""
    created: list[float] = []
    for _ in range(20):
        await asyncio.sleep(PAUSE_S)
        created.append(await create())
    return [Line("create, warm", middle(created), "ms, p50", "<= 15")]


async def one_at_a_time() -> list[Line]:
    """A command and a small file: SDK and runtime by turns."""
    made = await e2b.AsyncSandbox.create()
    async with Sandbox(a_folder(), isolation=choose_isolation("bubblewrap")) as runtime:
        commands = [await timed(lambda: made.commands.run("true")) for _ in range(200)]
        plain = [await timed(lambda: run(runtime)) for _ in range(200)]
    small = "x" * 1024
    writes = [await timed(lambda: made.files.write("/tmp/small", small)) for _ in range(200)]
    reads = [await timed(lambda: made.files.read("/tmp/small")) for _ in range(200)]
    await made.kill()
    command = middle(commands)
    return [
        Line("command", command, "ms, p50", "<= 8"),
        Line("  the runtime's own", middle(plain), "ms, p50"),
        Line("  SDK / runtime", command / middle(plain), "x"),
        Line("write 1 KB", middle(writes), "ms, p50"),
        Line("read 1 KB", middle(reads), "ms, p50"),
    ]


async def large() -> list[Line]:
    """What goes through a connection."""
    made = await e2b.AsyncSandbox.create()
    content = os.urandom(MB) * LARGE_MB
    up = await timed(lambda: made.files.write("/tmp/large", content, use_octet_stream=True))
    down = await timed(lambda: made.files.read("/tmp/large", format="bytes"))
    out = await timed(
        lambda: made.commands.run(
            f"yes | head -c {LARGE_MB * MB}", retain_output=False, timeout=300
        )
    )
    await made.kill()
    return [
        Line(f"write {LARGE_MB} MB", LARGE_MB / up, "MB/s"),
        Line(f"read {LARGE_MB} MB", LARGE_MB / down, "MB/s"),
        Line("standard output", LARGE_MB / out, "MB/s"),
    ]


async def many(server: int, count: int) -> list[Line]:
    """Many sandboxes, eight calls at a time for creating and one command in each."""
    before = memory_of(server)
    started = time.perf_counter()
    gate = asyncio.Semaphore(8)

    async def create_one() -> e2b.AsyncSandbox:
        async with gate:
            return await e2b.AsyncSandbox.create()

    made = await asyncio.gather(*(create_one() for _ in range(count)))
    created = time.perf_counter() - started
    megabytes = (memory_of(server) - before) / count / MB

    async def commands(sandbox: e2b.AsyncSandbox) -> None:
        for _ in range(20):
            await sandbox.commands.run("true")

    ran = await timed(lambda: asyncio.gather(*map(commands, made)))
    await asyncio.gather(*(sandbox.kill() for sandbox in made))
    return [
        Line("sandboxes created", count / created, "a second"),
        Line(f"commands at {count} sandboxes", 20 * count / ran, "a second", ">= 200"),
        Line("memory", megabytes, "MB a sandbox", "<= 15"),
    ]


async def create() -> float:
    started = time.perf_counter()
    made = await e2b.AsyncSandbox.create()
    took = time.perf_counter() - started
    await made.kill()
    return took


async def start() -> float:
    sandbox = Sandbox(a_folder(), isolation=choose_isolation("bubblewrap"))
    took = await timed(sandbox.start)
    await sandbox.close()
    return took


async def run(sandbox: Sandbox) -> None:
    process = await sandbox.spawn("", argv=["/bin/bash", "-l", "-c", "true"])
    while await process.read() is not None:
        pass
    await process.wait()


def a_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"rsigym-perf-{time.monotonic_ns()}"


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


def middle(seconds: list[float]) -> float:
    return 1000 * statistics.median(seconds)


def memory_of(root: int) -> int:
    """Bytes of a process and all below it, pages that are shared counted by share."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


if __name__ == "__main__":
    main()
