"""A running program in a sandbox: its outputs, input, signals and end.

Its pipes or its terminal are read and written here, on the event loop, and not by way of the
supervisor. What is not read stays in them, so a program that prints faster than its reader waits.
"""

import array
import asyncio
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from rsigym.local.sandbox.channel import Answer, Channel

__all__ = ["Exit", "Output", "Process", "spawn"]

_PIECE_BYTES = 64 * 1024
_TERMINAL_BYTES = 128 * 1024  # more than a terminal holds: its buffers take 64 KiB and a line

type Stream = Literal["stdout", "stderr", "pty"]


@dataclass(frozen=True)
class Output:
    """A piece of what a program printed, at most 64 KiB."""

    stream: Stream
    data: bytes


@dataclass(frozen=True)
class Exit:
    """How a program ended.

    Attributes:
        exit_code: Its own; 128 + n after signal n; 126 if it could not be started.
        signal: The signal that ended it.
    """

    exit_code: int
    signal: int | None

    @classmethod
    def of(cls, status: int) -> Self:
        """From the supervisor's `status`, where a signal is a negative number."""
        return cls(status, None) if status >= 0 else cls(128 - status, -status)


class Process:
    """What `Sandbox.spawn` started, in a session of its own.

    Dropping it hurts nobody: the program goes on, its input ends, and what it prints from then
    on is read away inside the sandbox.

    Attributes:
        pid: As the sandbox numbers it.
    """

    def __init__(
        self,
        channel: Channel,
        name: int,
        pid: int,
        ended: asyncio.Future[Answer],
        outputs: dict[Stream, int],
        stdin: int | None,
    ):
        """
        Args:
            channel: The way to the supervisor.
            name: What the supervisor calls it.
            pid: As the sandbox numbers it.
            ended: The message that says how it ended.
            outputs: Descriptors that do not block, closed here.
            stdin: Another, of its input or terminal; None if it reads nothing.
        """
        self.pid = pid
        self._channel, self._name, self._ended = channel, name, ended
        self._outputs, self._stdin = outputs, stdin
        self._left: dict[Stream, int] | None = None  # what may be read after its end
        self._released = False
        self._terminal = "pty" in outputs
        self._writing = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        for event in (self._arrived, self._room):
            ended.add_done_callback(lambda _, event=event: event.set())

    async def read(self) -> Output | None:
        """The next piece of output, from either stream; one reader at a time.

        After its end what had been printed is read, and then no more, though a process that it
        left behind may hold its outputs open.

        Returns:
            None once it has ended and all is read.

        Raises:
            ServiceFailure: The sandbox ended before it.
        """
        await asyncio.sleep(0)  # a reader that always finds something must not hold up the loop
        while self._outputs:
            over = self._ended.done()  # asked first: it then has written all that it ever will
            if over and self._left is None:
                self._left = {stream: _held(stream, fd) for stream, fd in self._outputs.items()}
            for stream in list(self._outputs):
                if data := self._take(stream):
                    return Output(stream, data)
            if over:
                break
            self._arrived.clear()
            for fd in self._outputs.values():
                self._loop.add_reader(fd, self._arrived.set)
            try:
                await self._arrived.wait()
            finally:
                self._stop_reading()
        await self.wait()
        self.close()
        return None

    async def wait(self) -> Exit:
        """Waits until it ends, which it does only if its output is read or is little.

        Raises:
            ServiceFailure: The sandbox ended before it.
        """
        return Exit.of((await asyncio.shield(self._ended)).message["status"])

    async def write(self, data: bytes) -> None:
        """Writes all of `data` to its input or terminal, waiting while it does not read.

        Raises:
            BrokenPipeError: It has no input, has closed it, or has ended.
        """
        async with self._writing:
            left = memoryview(data)
            while left:
                if self._stdin is None or self._ended.done():
                    raise BrokenPipeError(errno.EPIPE, "the program reads no more input")
                try:
                    left = left[os.write(self._stdin, left) :]
                except BlockingIOError:
                    self._room.clear()
                    self._loop.add_writer(self._stdin, self._room.set)
                    try:
                        await self._room.wait()
                    finally:
                        self._stop_writing()

    def close_stdin(self) -> None:
        """Ends its input. A terminal has no such end: write b"\\x04" to it."""
        if self._stdin is not None and not self._terminal:
            self._stop_writing()
            os.close(self._stdin)
            self._stdin = None
            self._room.set()

    async def signal(self, number: int) -> None:
        """Sends a signal to its process group; nothing happens once it has ended.

        Raises:
            ServiceFailure: The sandbox has ended.
        """
        await self._channel.call("signal", target=self._name, number=number)

    async def resize(self, columns: int, rows: int) -> None:
        """Gives its terminal another size, and tells the program in its foreground.

        Raises:
            OSError: It has no terminal.
            ValueError: There is no terminal of that size.
        """
        if self._stdin is None or not self._terminal:
            raise OSError(errno.ENOTTY, "the program has no terminal")
        fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, _window_size(columns, rows))

    async def kill(self) -> None:
        """Kills it and all below it, unless it has ended; answers once they are gone.

        Raises:
            ServiceFailure: The sandbox has ended.
        """
        await self._channel.call("kill", target=self._name)

    def close(self) -> None:
        """Reads and writes no more. The program goes on; see above. Idempotent."""
        self._stop_reading()
        self._stop_writing()
        self._release()
        self._room.set()

    def __del__(self) -> None:
        self._release()

    def _stop_reading(self) -> None:
        for fd in self._outputs.values():
            self._loop.remove_reader(fd)

    def _stop_writing(self) -> None:
        if self._stdin is not None:
            self._loop.remove_writer(self._stdin)

    def _release(self) -> None:
        if not self._released:
            self._released = True
            stdin = [] if self._stdin is None else [self._stdin]
            for fd in (*self._outputs.values(), *stdin):
                os.close(fd)
            self._outputs, self._stdin = {}, None
            self._channel.post("release", target=self._name)

    def _take(self, stream: Stream) -> bytes:
        """What can be read of a stream now; it is forgotten at its end."""
        most = _PIECE_BYTES if self._left is None else min(_PIECE_BYTES, self._left[stream])
        fd = self._outputs.pop(stream)
        try:
            data = os.read(fd, most)
        except BlockingIOError:
            self._outputs[stream] = fd
            return b""
        except OSError:  # how a terminal ends
            data = b""
        if data:
            self._outputs[stream] = fd  # behind the other stream, whose turn it is next
            if self._left is not None:
                self._left[stream] -= len(data)
        else:
            os.close(fd)
        return data


async def spawn(
    channel: Channel,
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bool,
    pty: tuple[int, int] | None,
) -> Process:
    """See `Sandbox.spawn`; everything as the sandbox knows it.

    Raises:
        OSError: The system refused it.
        ServiceFailure: The sandbox has ended.
        ValueError: There is no terminal of that size.
    """
    if pty is not None:
        _window_size(*pty)
    # Its end is waited for before it can come.
    name, ended = channel.expect()
    try:
        answer = await channel.call(
            "spawn", ended=name, argv=argv, cwd=cwd, env=env, stdin=stdin, pty=pty
        )
    except BaseException:
        channel.post("kill", target=name)
        channel.post("release", target=name)
        raise
    fds = answer.fds
    if pty is not None:
        return Process(channel, name, answer.message["pid"], ended, {"pty": fds[0]}, os.dup(fds[0]))
    given = fds.pop(0) if stdin else None
    outputs: dict[Stream, int] = dict(zip(("stdout", "stderr"), fds, strict=True))
    return Process(channel, name, answer.message["pid"], ended, outputs, given)


def _window_size(columns: int, rows: int) -> bytes:
    if not (0 < columns < 1 << 16 and 0 < rows < 1 << 16):
        raise ValueError("a terminal has 1 to 65535 columns and rows")
    return struct.pack("4H", rows, columns, 0, 0)


def _held(stream: Stream, fd: int) -> int:
    """How many bytes a stream may hold that nobody has read."""
    if stream == "pty":
        return _TERMINAL_BYTES
    waiting = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, waiting)
    return waiting[0]
