"""A program that runs in a sandbox, and the streams that listen to it."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b.envd.process.process_pb import ProcessEvent, ProcessInfo
from protobuf import Oneof

from rsigym.platform.errors import ServiceFailure

if TYPE_CHECKING:
    from rsigym.local.sandbox.process import Exit, Output, Process

__all__ = ["KEEPALIVE_S", "Running"]

# A client that is gone is noticed when something is sent to it.
KEEPALIVE_S = 5.0
# Pieces of at most 64 KiB that wait for a slow listener before the program has to.
_PIECES = 16

type Item = ProcessEvent | ConnectError
type Listener = asyncio.Queue[Item]

_KEEPALIVE = ProcessEvent(event=Oneof("keepalive", ProcessEvent.KeepAlive()))
_TIMED_OUT = "the time of this stream is up"


class Running:
    """Hands a program's output on to whoever listens.

    It reads no faster than its slowest listener. With none, output is dropped, as E2B does, so
    that a client that went away does not stop the program.
    """

    def __init__(self, process: "Process", info: ProcessInfo, timeout_s: float | None):
        """
        Args:
            process: Just started: its first listener comes before anything is read.
            info: How it was started.
            timeout_s: The time after which it is killed, however its clients are.
        """
        self.process, self.info = process, info
        self._listeners: set[Listener] = set()
        self._left_s = timeout_s
        self._deadline: asyncio.TimerHandle | None = None
        self._timed_out = False
        self._killing: asyncio.Task[None] | None = None
        self.start_clock()

    def start_clock(self) -> None:
        """Lets its time run: at the start, and when the sandbox is resumed."""
        if self._left_s is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._left_s, self._expire)

    def stop_clock(self) -> None:
        """Keeps what is left of its time while the sandbox is paused."""
        if self._deadline is not None and self._left_s is not None:
            self._left_s = max(0.0, self._deadline.when() - asyncio.get_running_loop().time())
            self._deadline.cancel()

    async def pump(self) -> None:
        """Reads the program to its end, and tells all listeners how it ended."""
        try:
            while (output := await self.process.read()) is not None:
                await self._publish(_data(output))
            last: Item = _end(await self.process.wait())
        except ServiceFailure as failure:
            last = ConnectError(Code.UNAVAILABLE, failure.message)
        finally:
            self.stop_clock()
            self.process.close()
        if self._timed_out:
            last = ConnectError(Code.DEADLINE_EXCEEDED, _TIMED_OUT)
        await self._publish(last)

    async def events(self, timeout_s: float | None = None) -> AsyncGenerator[ProcessEvent]:
        """All that happens from now on; it never leaves the program behind blocked.

        Args:
            timeout_s: The time after which this stream ends, and the program goes on.

        Raises:
            ConnectError: The program, the stream or the sandbox was ended from outside.
        """
        with self._listening() as listener:
            yield ProcessEvent(event=Oneof("start", ProcessEvent.StartEvent(pid=self.info.pid)))
            loop = asyncio.get_running_loop()
            until = None if timeout_s is None else loop.time() + timeout_s
            while True:
                item = await _next(listener, until)
                if isinstance(item, ConnectError):
                    raise item
                yield item
                if item.event is not None and item.event.field == "end":
                    return

    def end_streams(self, error: ConnectError) -> None:
        """Ends all streams at once, whatever they have not sent yet; the program goes on."""
        for listener in list(self._listeners):
            _empty(listener)
            listener.put_nowait(error)

    @contextmanager
    def _listening(self) -> Iterator[Listener]:
        listener: Listener = asyncio.Queue(_PIECES)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
            _empty(listener)  # the pump may be waiting for room in it

    async def _publish(self, item: Item) -> None:
        for listener in list(self._listeners):
            if listener in self._listeners:  # it may have left while another one was slow
                await listener.put(item)

    def _expire(self) -> None:
        self._timed_out = True
        self._killing = asyncio.create_task(self._kill())

    async def _kill(self) -> None:
        try:
            await self.process.kill()
        except (OSError, ServiceFailure):
            return  # it has ended meanwhile, and the pump says how


async def _next(listener: Listener, until: float | None) -> Item:
    """The next item, or a sign of life after a while without one."""
    if not listener.empty():
        return listener.get_nowait()
    loop = asyncio.get_running_loop()
    left_s = KEEPALIVE_S if until is None else min(KEEPALIVE_S, until - loop.time())
    try:
        return await asyncio.wait_for(listener.get(), left_s)
    except TimeoutError:
        if until is not None and loop.time() >= until:
            return ConnectError(Code.DEADLINE_EXCEEDED, _TIMED_OUT)
        return _KEEPALIVE


def _empty(listener: Listener) -> None:
    while not listener.empty():
        listener.get_nowait()


def _data(output: "Output") -> ProcessEvent:
    event = ProcessEvent.DataEvent()
    match output.stream:
        case "stdout":
            event.output = Oneof("stdout", output.data)
        case "stderr":
            event.output = Oneof("stderr", output.data)
        case "pty":
            event.output = Oneof("pty", output.data)
    return ProcessEvent(event=Oneof("data", event))


def _end(exit: "Exit") -> ProcessEvent:
    """As Go's `os/exec` says it: -1 for a program that a signal ended."""
    if exit.signal is None:
        end = ProcessEvent.EndEvent(
            exit_code=exit.exit_code, exited=True, status=f"exit status {exit.exit_code}"
        )
    else:
        status = f"signal: {signal.strsignal(exit.signal) or exit.signal}".lower()
        end = ProcessEvent.EndEvent(exit_code=-1, exited=False, status=status, error=status)
    return ProcessEvent(event=Oneof("end", end))
