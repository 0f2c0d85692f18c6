"""`process.Process` of one sandbox: start, listen, write, signal, list."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from e2b.envd.process import process_connect
from e2b.envd.process import process_pb as pb

from rsigym.local.e2b.errors import rpc_errors
from rsigym.local.e2b.paths import home_path
from rsigym.local.e2b.running import Running

if TYPE_CHECKING:
    from rsigym.local.sandbox import Sandbox

__all__ = ["ProcessService"]

_MOST_UNREAD = 16 << 20
"""Bytes of input that wait for the programs of a sandbox: four of the largest messages."""


class ProcessService(process_connect.Process):
    """The programs that clients have started in a sandbox, by pid."""

    def __init__(self, sandbox: "Sandbox", environment: Mapping[str, str]):
        """
        Args:
            sandbox: Where they run.
            environment: Variables that each of them has.
        """
        self._sandbox, self._environment = sandbox, dict(environment)
        self._running: dict[int, Running] = {}
        self._pumps: set[asyncio.Task[None]] = set()
        self._unread = 0

    async def start(
        self, request: pb.StartRequest, ctx: RequestContext[pb.StartRequest, pb.StartResponse], /
    ) -> AsyncIterator[pb.StartResponse]:
        running = await self._spawn(request, ctx.timeout_ms)
        events = running.events()
        first = await anext(events)  # it listens before the first byte is read
        self._follow(running)
        yield pb.StartResponse(event=first)
        async for event in events:
            yield pb.StartResponse(event=event)

    async def connect(
        self,
        request: pb.ConnectRequest,
        ctx: RequestContext[pb.ConnectRequest, pb.ConnectResponse],
        /,
    ) -> AsyncIterator[pb.ConnectResponse]:
        running = self._find(request.process)
        async for event in running.events(_seconds(ctx.timeout_ms)):
            yield pb.ConnectResponse(event=event)

    async def list(
        self, request: pb.ListRequest, ctx: RequestContext[pb.ListRequest, pb.ListResponse], /
    ) -> pb.ListResponse:
        return pb.ListResponse(processes=[running.info for running in self._running.values()])

    async def update(
        self, request: pb.UpdateRequest, ctx: RequestContext[pb.UpdateRequest, pb.UpdateResponse], /
    ) -> pb.UpdateResponse:
        running = self._find(request.process)
        if request.pty is not None and request.pty.size is not None:
            with rpc_errors():
                await running.process.resize(request.pty.size.cols, request.pty.size.rows)
        return pb.UpdateResponse()

    async def send_input(
        self,
        request: pb.SendInputRequest,
        ctx: RequestContext[pb.SendInputRequest, pb.SendInputResponse],
        /,
    ) -> pb.SendInputResponse:
        await self._write(self._find(request.process), request.input)
        return pb.SendInputResponse()

    async def stream_input(
        self,
        request: AsyncIterator[pb.StreamInputRequest],
        ctx: RequestContext[pb.StreamInputRequest, pb.StreamInputResponse],
        /,
    ) -> pb.StreamInputResponse:
        running: Running | None = None
        async for message in request:
            event = message.event
            if event is None or event.field == "keepalive":
                continue
            if event.field == "start":
                running = self._find(event.value.process)
            elif running is None:
                raise ConnectError(Code.INVALID_ARGUMENT, "the first message names the process")
            else:
                await self._write(running, event.value.input)
        return pb.StreamInputResponse()

    async def close_stdin(
        self,
        request: pb.CloseStdinRequest,
        ctx: RequestContext[pb.CloseStdinRequest, pb.CloseStdinResponse],
        /,
    ) -> pb.CloseStdinResponse:
        self._find(request.process).process.close_stdin()
        return pb.CloseStdinResponse()

    async def send_signal(
        self,
        request: pb.SendSignalRequest,
        ctx: RequestContext[pb.SendSignalRequest, pb.SendSignalResponse],
        /,
    ) -> pb.SendSignalResponse:
        process = self._find(request.process).process
        with rpc_errors():
            if request.signal == signal.SIGKILL:
                await process.kill()
            else:
                await process.signal(int(request.signal))
        return pb.SendSignalResponse()

    def suspend(self) -> None:
        """Ends the streams and stops the clocks of a sandbox that is being paused."""
        paused = ConnectError(Code.CANCELED, "the sandbox was paused")
        for running in self._running.values():
            running.stop_clock()
            running.end_streams(paused)

    def resume(self) -> None:
        """Lets the clocks run again."""
        for running in self._running.values():
            running.start_clock()

    def close(self, why: str) -> None:
        """Ends the streams of a sandbox that is going away."""
        for running in self._running.values():
            running.stop_clock()
            running.end_streams(ConnectError(Code.UNAVAILABLE, why))

    async def _spawn(self, request: pb.StartRequest, timeout_ms: float | None) -> Running:
        config = request.process or pb.ProcessConfig()
        pty = None
        if request.pty is not None:
            size = request.pty.size or pb.PTY.Size(cols=80, rows=24)
            pty = (size.cols, size.rows)
        with rpc_errors():
            process = await self._sandbox.spawn(
                "",
                argv=[config.cmd, *config.args],
                cwd=home_path(config.cwd),
                env=self._environment | config.envs,
                # Clients that do not say, older ones among them, may write.
                stdin=request.stdin if request.has_field("stdin") else True,
                pty=pty,
            )
        info = pb.ProcessInfo(
            config=config,
            pid=process.pid,
            tag=request.tag if request.has_field("tag") else None,
        )
        return Running(process, info, _seconds(timeout_ms))

    def _follow(self, running: Running) -> None:
        """Pumps in a task of its own: the stream's client may go away."""
        self._running[running.info.pid] = running

        async def pump() -> None:
            try:
                await running.pump()
            finally:
                if self._running.get(running.info.pid) is running:  # pids are used again
                    del self._running[running.info.pid]

        task = asyncio.create_task(pump())
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)

    async def _write(self, running: Running, given: pb.ProcessInput | None) -> None:
        """Writes input; what programs have not read is bounded, as its senders may have left."""
        if given is None or given.input is None:
            raise ConnectError(Code.INVALID_ARGUMENT, "there is no input in this request")
        data = given.input.value
        if self._unread + len(data) > _MOST_UNREAD:
            raise ConnectError(
                Code.RESOURCE_EXHAUSTED,
                f"programs have not read {self._unread} bytes of their input: write when they have",
            )
        self._unread += len(data)
        try:
            with rpc_errors():
                await running.process.write(data)
        finally:
            self._unread -= len(data)

    def _find(self, selector: pb.ProcessSelector | None) -> Running:
        wanted = None if selector is None else selector.selector
        if wanted is None:
            raise ConnectError(Code.INVALID_ARGUMENT, "name a process, by pid or tag")
        if wanted.field == "pid" and wanted.value in self._running:
            return self._running[wanted.value]
        if wanted.field == "tag":
            for running in self._running.values():
                if running.info.has_field("tag") and running.info.tag == wanted.value:
                    return running
        raise ConnectError(Code.NOT_FOUND, f"process {wanted.field} {wanted.value} not found")


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000
