"""Running programs in a sandbox: to their end, or as processes to talk to."""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsigym.local.sandbox.descriptors import memory_file, unnamed_copy
from rsigym.local.sandbox.launch import base_environment
from rsigym.local.sandbox.layout import Layout
from rsigym.local.sandbox.limits import Limits
from rsigym.local.sandbox.outlet import Outlet
from rsigym.local.sandbox.process import Exit, Process, spawn
from rsigym.local.sandbox.runtime import Runtime
from rsigym.local.sandbox.template import Template
from rsigym.platform.errors import ServiceFailure

__all__ = ["Commands", "ExecResult"]

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


class Commands:
    """What a `Sandbox` can do with programs."""

    _runtime: Runtime
    _layout: Layout
    _limits: Limits
    _template: Template
    _outlet: Outlet

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
                argv=["/bin/bash", "-c", self._layout.rewrite(command)],
                cwd=self._layout.path(cwd or self._template.workdir),
                env=self._environment(env or {}),
            )
            stdout, stderr = map(self._output, sinks, message["cut"])
        timed_out = message["timed_out"]
        code = TIMED_OUT if timed_out else Exit.of(message["status"]).exit_code
        return ExecResult(code, stdout, stderr, timed_out, any(message["cut"]))

    async def spawn(
        self,
        command: str = "",
        *,
        argv: Sequence[str] | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        pty: tuple[int, int] | None = None,
    ) -> Process:
        """Starts `bash -c command`, or the program `argv`, in a session of its own.

        It has no time limit and its output no bound: its reader decides. What cannot be started
        is a process that says so on stderr and ends with 126.

        Args:
            command: The text for bash, at most 128 KiB.
            argv: A program and its arguments instead.
            cwd: Its working directory, by default the template's, which is /app.
            env: Environment variables on top of the sandbox's own.
            stdin: Whether `Process.write` is its input; by default there is none.
            pty: The columns and rows of a terminal that is its input and output.

        Raises:
            ServiceFailure: The sandbox has ended, or has no room for another process.
            ValueError: There is no terminal of that size.
        """
        words = ["/bin/bash", "-c", command] if argv is None else argv
        terminal = {} if pty is None else {"TERM": "xterm-256color"}
        with _no_room():
            return await spawn(
                self._runtime.channel,
                [self._layout.rewrite(word) for word in words],
                cwd=self._layout.path(cwd or self._template.workdir),
                env=self._environment(terminal | dict(env or {})),
                stdin=stdin,
                pty=pty,
            )

    async def kill_all(self) -> None:
        """Ends every process in the sandbox but its supervisor; answers once they are gone.

        Raises:
            ServiceFailure: The sandbox has ended, or a process cannot be killed.
        """
        answer = await self._runtime.channel.call("kill_all")
        if not answer.message["gone"]:
            raise ServiceFailure("a process in the sandbox cannot be killed", side="sandbox")

    async def pause(self) -> None:
        """Stops every process where it is. Time limits of commands run on, and can be met.

        Raises:
            ServiceFailure: The sandbox has ended.
        """
        await self._runtime.channel.call("signal_all", number=signal.SIGSTOP)

    async def resume(self) -> None:
        """Lets every process go on, also those that had stopped by themselves.

        Raises:
            ServiceFailure: The sandbox has ended.
        """
        await self._runtime.channel.call("signal_all", number=signal.SIGCONT)

    async def _run(
        self, fds: Sequence[int], timeout_s: float | None, **request: Any
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(None if timeout_s is None else timeout_s + _GRACE_S):
                with _no_room():
                    answer = await self._runtime.channel.call(
                        "exec", fds, timeout_s=timeout_s, **request
                    )
        except TimeoutError:
            raise ServiceFailure("the sandbox does not answer", side="sandbox") from None
        return answer.message

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """All environment variables of a command; the caller's win."""
        own = {name: self._layout.rewrite(value) for name, value in more.items()}
        base = base_environment(self._layout) | dict(self._template.env)
        return base | self._outlet.environment | own

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


@contextmanager
def _no_room() -> Iterator[None]:
    """Whatever the system has against a new process is the sandbox's failure."""
    try:
        yield
    except OSError as error:
        raise ServiceFailure(
            f"the sandbox cannot start a command: {error.strerror}", side="sandbox"
        ) from error
