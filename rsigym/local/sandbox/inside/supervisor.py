"""The loop that serves one sandbox: PID 1 under bubblewrap, a plain process otherwise.

The host sends requests over the channel (see `messages`), each with an `id` that its answer
repeats; descriptors travel beside them:

    exec {command, cwd, env, timeout_s} + stdin, stdout, stderr -> {exit_code, timed_out, cut}
    kill {target}                    ends the exec of that id, which then answers
    kill_all {}                   -> {gone}, once nothing runs but the supervisor
    listen {port}                 -> {} + a socket that listens on 127.0.0.1:port
    transfer {give, path} + a socket of its own -> {}, and then the tree on that socket

What the system refuses is answered with {error: [errno, text]}. A closed channel ends everything.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from .commands import CHUNK_BYTES, Command, Stream
from .messages import receive, send
from .processes import (
    KILL_PATIENCE_S,
    allow_open_files,
    become_command,
    close_from,
    descendants,
    end,
    family,
    guard_supervisor,
)
from .tree import receive_tree, send_tree

TYPE_CHECKING = False  # `typing` itself would be a tenth of the start of a sandbox
if TYPE_CHECKING:
    from typing import Any, NoReturn

_CHANNEL = 3


def main() -> None:
    """Runs as `python3 -I -S supervisor.pyz FD CONFIG`.

    FD is the supervisor's end of the channel. CONFIG is JSON: `rlimits` of each command by the
    names of the `resource` module, `output_bytes` kept of each output, and `root`, the folder
    that transfers may not leave.
    """
    os.dup2(int(sys.argv[1]), _CHANNEL, inheritable=False)
    close_from(_CHANNEL + 1)
    os.umask(0o022)
    open_files = allow_open_files()
    guard_supervisor()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    config = json.loads(sys.argv[2])
    Supervisor(socket.socket(fileno=_CHANNEL), config, open_files).run()


class Supervisor:
    """Requests, outputs, ended processes and deadlines, in one thread."""

    def __init__(self, channel: socket.socket, config: dict[str, Any], open_files: int):
        self._channel, self._config, self._open_files = channel, config, open_files
        self._is_init = os.getpid() == 1
        self._commands: dict[int, Command] = {}  # by pid
        self._streams: dict[int, Stream] = {}  # by descriptor
        self._ended, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._poll.register(self._ended, select.POLLIN)

    def run(self) -> None:
        """Serves until the host closes its end, and leaves nothing running."""
        self._send({"ready": True})
        while True:
            for fd, _ in self._poll.poll(self._milliseconds_left()):
                if fd == self._ended:
                    os.read(fd, CHUNK_BYTES)
                elif fd != _CHANNEL:
                    self._read(fd)
                elif not self._serve():
                    self._kill_all()
                    return
            self._reap()
            self._expire()

    def _serve(self) -> bool:
        """Does one request; False when the host is gone."""
        try:
            request, fds, _ = receive(self._channel)
        except OSError:
            return False
        if request is None:
            return False
        try:
            if "error" in request:
                raise OSError(*request["error"])
            getattr(self, f"_do_{request['op']}")(request, fds)
        except OSError as error:
            self._send({"id": request["id"], "error": [error.errno, error.strerror]})
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        try:
            send(self._channel, message, fds)
        except ConnectionError:
            return  # the next read of the channel finds its end

    def _do_exec(self, request: dict[str, Any], fds: list[int]) -> None:
        streams = [Stream(sink, self._config["output_bytes"]) for sink in fds[1:]]
        for stream in streams:
            self._watch(stream)
        try:
            pid = os.fork()
            if pid == 0:
                become_command(
                    request["command"],
                    request["cwd"],
                    request["env"],
                    (fds[0], *(stream.writer for stream in streams)),
                    self._config["rlimits"],
                    self._open_files,
                )
            self._commands[pid] = Command(request["id"], request["timeout_s"], streams)
        except OSError:
            for stream in streams:
                stream.finish()
            raise
        finally:
            for stream in streams:
                os.close(stream.writer)

    def _do_kill(self, request: dict[str, Any], fds: list[int]) -> None:
        for pid, command in self._commands.items():
            if command.id == request["target"]:
                end(lambda pid=pid: family(pid))

    def _do_kill_all(self, request: dict[str, Any], fds: list[int]) -> None:
        self._send({"id": request["id"], "gone": self._kill_all()})

    def _do_listen(self, request: dict[str, Any], fds: list[int]) -> None:
        with socket.create_server(("127.0.0.1", request["port"]), backlog=128) as listener:
            self._send({"id": request["id"]}, (listener.fileno(),))

    def _do_transfer(self, request: dict[str, Any], fds: list[int]) -> None:
        # In a process of its own: a large tree must not keep the commands waiting.
        if os.fork() == 0:
            self._transfer(request, fds[0])
        self._send({"id": request["id"]})

    def _transfer(self, request: dict[str, Any], fd: int) -> NoReturn:
        try:
            link = socket.socket(fileno=os.dup2(fd, _CHANNEL, inheritable=False))
            close_from(_CHANNEL + 1)
            try:
                path = _confined(request["path"], self._config["root"])
                if request["give"]:
                    send_tree(link, path)
                else:
                    receive_tree(link, path, sys.maxsize, sys.maxsize)
            except OSError as error:
                send(link, {"error": [error.errno, error.strerror, error.filename]})
                while receive(link)[0] is not None:
                    pass  # to close with a message unread would take the error back
        finally:
            os._exit(0)

    def _watch(self, stream: Stream) -> None:
        assert stream.source is not None
        self._streams[stream.source] = stream
        self._poll.register(stream.source, select.POLLIN)

    def _read(self, fd: int) -> None:
        if not self._streams[fd].pump():
            self._poll.unregister(fd)
            del self._streams[fd]

    def _reap(self) -> bool:
        """Collects what has ended, and answers for commands; whether any child remains."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            command = self._commands.pop(pid, None)
            if command is not None:
                self._finish(command, os.waitstatus_to_exitcode(status))

    def _finish(self, command: Command, code: int) -> None:
        for stream in command.streams:
            stream.finish()
        self._send(
            {
                "id": command.id,
                "exit_code": code if code >= 0 else 128 - code,
                "timed_out": command.timed_out,
                "cut": [stream.cut for stream in command.streams],
            }
        )

    def _milliseconds_left(self) -> float | None:
        deadlines = [c.deadline for c in self._commands.values() if c.deadline is not None]
        if not deadlines:
            return None
        return max(0.0, min(deadlines) - time.monotonic()) * 1000 + 1

    def _expire(self) -> None:
        now = time.monotonic()
        for pid, command in self._commands.items():
            if command.deadline is not None and command.deadline <= now:
                command.timed_out, command.deadline = True, None
                end(lambda pid=pid: family(pid))

    def _kill_all(self) -> bool:
        """Kills everything; whether it is gone.

        Orphans become children of the supervisor, so no child means no process.
        """
        deadline = time.monotonic() + KILL_PATIENCE_S
        while self._reap():
            if time.monotonic() > deadline:
                return False
            if self._is_init:
                os.kill(-1, signal.SIGKILL)  # the whole namespace at once, forks under way included
            else:
                end(lambda: descendants(os.getpid()))
            time.sleep(0.001)
        return True


def _confined(path: str, root: str) -> str:
    """`path`, refused if links lead it out of `root`; its last part is not resolved."""
    parent = os.path.realpath(os.path.dirname(path))
    root = os.path.realpath(root)
    if os.path.commonpath([parent, root]) != root:
        raise PermissionError(1, "this path leads out of the sandbox", path)
    return os.path.join(parent, os.path.basename(path))
