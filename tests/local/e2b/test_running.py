"""Those who listen to a program: kept alive, waited for, and let go."""

import asyncio
from pathlib import Path

import pytest
from e2b.envd.process.process_pb import ProcessConfig, ProcessInfo
from protobuf import Oneof

from rsigym.local.e2b import running
from rsigym.local.e2b.running import Running
from rsigym.local.sandbox import Isolation, Sandbox
from tests.local.sandbox.support import on_loop, opened


async def started(sandbox: Sandbox, command: str, timeout_s: float | None = None) -> Running:
    process = await sandbox.spawn(command)
    info = ProcessInfo(config=ProcessConfig(cmd=command), pid=process.pid)
    return Running(process, info, timeout_s)


@on_loop
async def test_a_stream_without_news_shows_that_it_lives(
    folder: Path, bubblewrap: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "KEEPALIVE_S", 0.05)
    async with opened(folder, bubblewrap) as sandbox:
        program = await started(sandbox, "sleep 60")
        pumping = asyncio.create_task(program.pump())
        stream = program.events()
        for expected in ("start", "keepalive", "keepalive"):
            event = (await anext(stream)).event
            assert event is not None
            assert event.field == expected
        await program.process.kill()
        await pumping


@on_loop
async def test_a_program_waits_for_the_slowest_listener_until_that_one_leaves(
    folder: Path, bubblewrap: Isolation
) -> None:
    async with opened(folder, bubblewrap) as sandbox:
        program = await started(sandbox, "yes | head -c 10000000; echo done > /tmp/done")
        slow, quick = program.events(), program.events()
        await anext(slow)
        await anext(quick)
        pumping = asyncio.create_task(program.pump())
        got = 0

        async def read() -> None:
            nonlocal got
            async for event in quick:
                match event.event:
                    case Oneof(field="data", value=data) if data.output is not None:
                        got += len(data.output.value)
                    case _:
                        pass

        reading = asyncio.create_task(read())
        for _ in range(20):
            await sandbox.exec("true")
        assert got < 5_000_000, "the slow one is not waited for"
        assert (await sandbox.exec("test -e /tmp/done")).exit_code == 1
        await slow.aclose()
        await asyncio.gather(reading, pumping)
        assert got == 10_000_000
