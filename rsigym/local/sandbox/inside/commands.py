"""A running command and its outputs, as the supervisor keeps them."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import struct
import termios
import time

CHUNK_BYTES = 64 * 1024


class Ends:
    """The ends of a command's input and outputs while it is started.

    As a context it closes what only the command and the host need, and on an error all.

    Attributes:
        command: What becomes its standard input, output and error.
        input: What the host writes to, if anything.
        outputs: What is read; a terminal is written to as well.
    """

    def __init__(self) -> None:
        self.command: list[int] = []
        self.input: list[int] = []
        self.outputs: list[int] = []

    def __enter__(self) -> Ends:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        for fd in self.command + self.input + (self.outputs if error else []):
            os.close(fd)

    def give(self, fd: int) -> None:
        """Lets the command have a copy of `fd`."""
        self.command.append(os.dup(fd))

    def add_input(self) -> None:
        reader, writer = os.pipe()
        self.command.append(reader)
        self.input.append(writer)
        os.set_blocking(writer, False)

    def add_outputs(self) -> None:
        for _ in ("stdout", "stderr"):
            reader, writer = os.pipe()
            self.command.append(writer)
            self.outputs.append(reader)
            os.set_blocking(reader, False)

    def add_terminal(self, columns: int, rows: int) -> None:
        master, slave = os.openpty()
        self.outputs.append(master)
        self.command.append(slave)
        self.give(slave)
        self.give(slave)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
        os.set_blocking(master, False)


class Stream:
    """One output of a command: kept up to a limit, read and dropped beyond it.

    It outlives its command, so that a process left in the background may go on printing.

    Attributes:
        source: The end that is read, or None once it has ended.
        cut: Whether the command printed more than was kept.
    """

    def __init__(self, source: int, sink: int | None = None, room: int = 0):
        self.source: int | None = source
        self._sink = None if sink is None else os.dup(sink)
        self._room = room
        self.cut = False

    def pump(self, most: int = CHUNK_BYTES) -> bool:
        """Reads once; False at the end of the stream, which is then closed."""
        if self.source is None:
            return False
        try:
            data = os.read(self.source, most)
        except BlockingIOError:
            return True
        except OSError as error:  # how a terminal ends
            if error.errno != errno.EIO:
                raise
            data = b""
        if not data:
            os.close(self.source)
            self.source = None
        elif self._sink is not None:
            os.write(self._sink, data[: self._room])
            self.cut = self.cut or len(data) > self._room
            self._room -= min(len(data), self._room)
        return bool(data)

    def finish(self) -> None:
        """Keeps what is in the pipe now and nothing that comes later."""
        if self.source is not None:
            waiting = array.array("i", [0])
            fcntl.ioctl(self.source, termios.FIONREAD, waiting)
            left = waiting[0]
            while left > 0 and self.pump(min(left, CHUNK_BYTES)):
                left -= CHUNK_BYTES
        if self._sink is not None:
            os.close(self._sink)
            self._sink = None


class Command:
    """A command from its start to the message that says how it ended, which bears its `id`."""

    def __init__(self, id: int, streams: list[Stream], timeout_s: float | None):
        self.id = id
        self.streams = streams
        self.timed_out = False
        self.deadline = None if timeout_s is None else time.monotonic() + timeout_s
