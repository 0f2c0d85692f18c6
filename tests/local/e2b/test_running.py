"""Those who listen to a program: kept alive, waited for, and let go."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from connectrpc.errors import ConnectError
from e2b.envd.process.process_pb import (
    ProcessConfig,
    ProcessInfo,
    ProcessInput,
    ProcessSelector,
    SendInputRequest,
    SendSignalRequest,
    Signal,
    StartRequest,
)
from protobuf import Oneof

from rsigym.local.e2b import running
from rsigym.local.e2b.process_service import ProcessService
from rsigym.local.e2b.running import Running
from rsigym.local.sandbox import Isolation, Sandbox
from tests.local.sandbox.support import on_loop, opened


class _Context:
    """Of a request without a time limit."""

    timeout_ms = None


ANYBODY: Any = _Context()


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


@on_loop
async def test_input_that_no_program_reads_is_bounded_whoever_sent_it(
    folder: Path, bubblewrap: Isolation
) -> None:
    async with opened(folder, bubblewrap) as sandbox:
        service = ProcessService(sandbox, {})
        config = ProcessConfig(cmd="/bin/sleep", args=["60"])
        stream = service.start(StartRequest(process=config, stdin=True), ANYBODY)
        begun: Any = await anext(stream)
        pid = begun.event.event.value.pid
        selector = ProcessSelector(selector=Oneof("pid", pid))
        piece = ProcessInput(input=Oneof("stdin", bytes(4 << 20)))
        request = SendInputRequest(process=selector, input=piece)
        waiting = [asyncio.create_task(service.send_input(request, ANYBODY)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(ConnectError, match="have not read"):
            await service.send_input(request, ANYBODY)
        await service.send_signal(
            SendSignalRequest(process=selector, signal=Signal.SIGKILL), ANYBODY
        )
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(end, ConnectError) for end in ends)
        service.close("it is over")
