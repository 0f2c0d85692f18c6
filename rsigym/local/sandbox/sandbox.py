"""The sandbox as its users see it: commands, files, listening sockets."""

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rsigym.local.sandbox import files, snapshot
from rsigym.local.sandbox.descriptors import memory_file, unnamed_copy
from rsigym.local.sandbox.egress import Egress
from rsigym.local.sandbox.host import substitute_for_root
from rsigym.local.sandbox.interpreter import choose_interpreter
from rsigym.local.sandbox.isolation import Isolation
from rsigym.local.sandbox.launch import base_environment
from rsigym.local.sandbox.limits import Limits
from rsigym.local.sandbox.lookups import Resolve, system_resolver
from rsigym.local.sandbox.outlet import Outlet
from rsigym.local.sandbox.proxy import Bounds
from rsigym.local.sandbox.runtime import Runtime
from rsigym.local.sandbox.template import BASE, Template
from rsigym.local.sandbox.tunnel import Traffic
from rsigym.platform.errors import OperatorError, ServiceFailure

__all__ = ["ExecResult", "Sandbox"]

TIMED_OUT = 124
_ONE_USER = {None, "user", "1000", "root", "0"}
_GRACE_S = 10.0  # the supervisor keeps the time; this is for a supervisor that does not answer


@dataclass(frozen=True)
class ExecResult:
    """How a command ended.

    Attributes:
        exit_code: Bash's; 128 + n after signal n; 126 if it could not be started; 124, as
            coreutils' `timeout` has it, if its time was up.
        stdout: What it printed: at most `Limits.output_bytes` and a note that the rest is cut.
        stderr: The same.
        timed_out: Whether it was killed because its time was up.
        truncated: Whether anything that it printed is cut.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool


class Sandbox:
    """A place to run an agent's programs and keep their files; used on one event loop.

    In every sandbox /app (the default working directory), /logs/{agent,verifier,artifacts},
    /agent, /tests, /solution, /tmp and /home/user (HOME) are writable and its own. There is one
    user, who owns all of them.

    With `bubblewrap` the rest of the file system is the host's programs, read-only; there are no
    other processes, no network but a loopback of its own, and nothing of the host's environment.
    On that loopback an HTTP proxy is the one way out, to where `egress` allows.

    With `process` there is no isolation: commands run as the caller, see what the caller sees and
    reach what the caller reaches, whatever `egress` says, and the folders are below `folder`.
    Their paths are put right where they are written out: in commands, in `cwd`, in the values of
    `env`, in scripts that are uploaded, and by `rewrite` in any other text, such as an
    instruction. A path that a program puts together by itself, or that a model writes, is not
    found; `$RSIGYM_SANDBOX_ROOT/app` is right everywhere.

    It contains the bugs and mistakes of the agents that run in it. The kernel is shared: it is
    not a virtual machine.
    """

    def __init__(
        self,
        folder: Path,
        *,
        isolation: Isolation,
        limits: Limits | None = None,
        template: Template = BASE,
        start_from: Path | None = None,
        egress: Egress | None = None,
        resolve: Resolve = system_resolver,
        bounds: Bounds | None = None,
    ):
        """
        Args:
            folder: A new or empty host folder for its files, removed on `close`. Root's sandboxes
                run as another user; where that user may not enter it, as below /root, the files
                are kept in /var/tmp instead.
            isolation: What `choose_isolation` answered.
            limits: What it may use.
            template: The system that its programs see.
            start_from: What `save` of an earlier sandbox wrote, for the files that it starts
                with; by default they are the template's.
            egress: Where its programs may ever connect to, by default nowhere: the operator's
                grant, to which `set_egress` only narrows.
            resolve: How the names of hosts are looked up.
            bounds: What its connections may take.
        """
        self._limits = limits or Limits()
        self._template = template
        self._start_from = start_from or template.first_files
        if isolation == "process" and (template.root or self._start_from):
            raise OperatorError(
                f"template {template.name} needs bubblewrap: plain processes have the system of "
                "this machine"
            )
        self._runtime = Runtime(folder, isolation, self._limits, template)
        self._layout = self._runtime.layout
        self._own_loopback = isolation == "bubblewrap"
        self._ports: dict[int, int] = {}
        self._grant = egress or Egress.none()
        self._outlet = Outlet(self.listen, self._grant, resolve, bounds or Bounds())

    async def start(self) -> None:
        """Starts it, and removes what the sandboxes of dead processes left behind.

        Raises:
            OperatorError: The folder cannot be used, or bubblewrap does not work here.
            ServiceFailure: It did not start.
        """
        await self._runtime.start()
        try:
            if self._start_from is not None:
                await snapshot.fill(self._execute, self._python, self._start_from)
            await self.set_egress(self._grant)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends it with all its processes and removes its files. Idempotent, at any stage."""
        try:
            await self._outlet.close()
        finally:
            await self._runtime.close()

    async def set_egress(self, asked: Egress) -> None:
        """Allows what the grant and `asked` both hold, and cuts connections to anywhere else.

        Commands started from then on are told of the proxy, or of none. In a sandbox without
        isolation it changes nothing: its programs have the network of this machine.

        Raises:
            OSError: A program inside has taken the proxy's port while there was no proxy.
            ServiceFailure: The sandbox has ended.
        """
        if self._own_loopback:
            await self._outlet.set(asked)

    @property
    def traffic(self) -> Traffic:
        """What its programs have sent and received through the proxy so far."""
        return self._outlet.traffic

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdin: bytes | Path | int | None = None,
        user: str | None = None,
    ) -> ExecResult:
        """Runs `bash -c command` in a session of its own and waits until it ends.

        What it leaves in the background is not waited for and goes on. When its time is up, or
        this call is cancelled, its session and all below it are killed.

        Args:
            command: The text for bash, at most 128 KiB.
            cwd: Its working directory, by default the template's, which is /app.
            env: Environment variables on top of the sandbox's own.
            timeout_s: Its time, kept by the supervisor.
            stdin: Its input, a host file with it, or a descriptor of a file that has no name; by
                default there is none.
            user: For callers that have to name one; "root" means the one user too.

        Raises:
            ServiceFailure: The sandbox has ended, or has no room for another process.
        """
        if user not in _ONE_USER:
            raise ServiceFailure(
                f"a local sandbox has one user and cannot run this as {user!r}: name no user",
                side="task",
            )
        with ExitStack() as stack:
            source = stack.enter_context(self._input(stdin))
            sinks = [stack.enter_context(memory_file()) for _ in ("stdout", "stderr")]
            message = await self._run(
                [source, *sinks],
                timeout_s,
                command=self._layout.rewrite(command),
                cwd=self._layout.path(cwd or self._template.workdir),
                env=self._environment(env or {}),
            )
            stdout, stderr = map(self._output, sinks, message["cut"])
        timed_out = message["timed_out"]
        code = TIMED_OUT if timed_out else message["exit_code"]
        return ExecResult(code, stdout, stderr, timed_out, any(message["cut"]))

    async def upload(self, source: Path, target: str) -> None:
        """Copies a host file to the path `target`, or a host folder's content into it.

        Links and special files in `source` are left out. `target` is resolved inside, and what
        has the same name is replaced, so that a link in the sandbox leads nowhere else.

        Raises:
            OSError: `source` is missing, or `target` cannot be written.
            ServiceFailure: The sandbox has ended.
        """
        await files.upload(self._runtime.channel, self._layout, source, target)

    async def download(self, source: str, target: Path) -> list[str]:
        """Copies a file to the host path `target`, or a folder's content into it.

        Links and special files are left out, never followed, and so is what goes beyond
        `Limits.download_mb` or `Limits.download_files`.

        Returns:
            The first names, relative to `source`, that were left out.

        Raises:
            OSError: `source` is missing, or is a link, a special file, or too large.
            ServiceFailure: The sandbox has ended.
        """
        channel = self._runtime.channel
        return await files.download(channel, self._layout, self._limits, source, target)

    async def listen(self, port: int) -> socket.socket:
        """A listening TCP socket that programs in the sandbox reach at `address(port)`.

        The caller accepts on it from outside, and closes it.

        Raises:
            OSError: The port is taken.
        """
        if self._own_loopback:
            answer = await self._runtime.channel.call("listen", port=port)
            listener = socket.socket(fileno=answer.fds[0])
        else:
            listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._ports[port] = listener.getsockname()[1]
        return listener

    def address(self, port: int) -> str:
        """The `host:port` at which programs inside reach what `listen(port)` gave."""
        return f"127.0.0.1:{self._ports[port]}"

    def path(self, inside: str) -> str:
        """What a program in the sandbox has to call the path `inside`."""
        return self._layout.path(inside)

    def rewrite(self, text: str) -> str:
        """A text with the standard folders' paths put right for programs in this sandbox."""
        return self._layout.rewrite(text)

    async def save(self, target: Path) -> None:
        """Ends every process in it and writes its folders to the new file `target`.

        It is for `start_from` of other sandboxes.

        Raises:
            ServiceFailure: They cannot be read, or are larger than `Limits.file_mb`.
        """
        await self.kill_all()
        await snapshot.save(self._execute, self._python, target)

    async def kill_all(self) -> None:
        """Ends every process in the sandbox but its supervisor; answers once they are gone.

        Raises:
            ServiceFailure: The sandbox has ended, or a process cannot be killed.
        """
        answer = await self._runtime.channel.call("kill_all")
        if not answer.message["gone"]:
            raise ServiceFailure("a process in the sandbox cannot be killed", side="sandbox")

    @property
    def _python(self) -> Sequence[str]:
        """The words that run its supervisor's interpreter."""
        return self._template.python or [str(choose_interpreter(substitute_for_root()).path)]

    async def _execute(self, command: str, stdin: int) -> ExecResult:
        return await self.exec(command, cwd="/", stdin=stdin)

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """All environment variables of a command; the caller's win."""
        own = {name: self._layout.rewrite(value) for name, value in more.items()}
        base = base_environment(self._layout) | dict(self._template.env)
        return base | self._outlet.environment | own

    async def _run(
        self, fds: Sequence[int], timeout_s: float | None, **request: Any
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(None if timeout_s is None else timeout_s + _GRACE_S):
                answer = await self._runtime.channel.call(
                    "exec", fds, timeout_s=timeout_s, **request
                )
        except TimeoutError:
            raise ServiceFailure("the sandbox does not answer", side="sandbox") from None
        except OSError as error:
            raise ServiceFailure(
                f"the sandbox cannot start a command: {error.strerror}", side="sandbox"
            ) from error
        return answer.message

    def _input(self, stdin: bytes | Path | int | None) -> AbstractContextManager[int]:
        if isinstance(stdin, int):
            return nullcontext(stdin)
        if isinstance(stdin, Path):
            return unnamed_copy(stdin, self._layout.folder)
        return memory_file(stdin or b"")

    def _output(self, sink: int, cut: bool) -> bytes:
        most = self._limits.output_bytes
        kept = os.pread(sink, most, 0)
        return kept + f"\n[output cut after {most} bytes]\n".encode() if cut else kept
