"""A running command and its two outputs, as the supervisor keeps them."""

import array
import fcntl
import os
import termios
import time

CHUNK_BYTES = 64 * 1024


class Stream:
    """One output of a command: kept up to a limit, read and dropped beyond it.

    It outlives its command, so that a process left in the background may go on printing.

    Attributes:
        source: The read end of the pipe, or None once it has ended.
        writer: The write end, which the supervisor closes after it has forked the command.
        cut: Whether the command printed more than was kept.
    """

    def __init__(self, sink: int, room: int):
        reader, self.writer = os.pipe()
        os.set_blocking(reader, False)
        self.source: int | None = reader
        self._sink: int | None = os.dup(sink)
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
    """A command from its start to its answer."""

    def __init__(self, request_id: int, timeout_s: float | None, streams: list[Stream]):
        self.id = request_id
        self.streams = streams
        self.timed_out = False
        self.deadline = None if timeout_s is None else time.monotonic() + timeout_s
