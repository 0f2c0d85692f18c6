"""The sandbox as its users see it: commands, files, listening sockets."""

import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rsigym.local.sandbox import snapshot
from rsigym.local.sandbox.commands import Commands, ExecResult
from rsigym.local.sandbox.egress import Egress
from rsigym.local.sandbox.files import Files
from rsigym.local.sandbox.isolation import Isolation
from rsigym.local.sandbox.launch import python_words
from rsigym.local.sandbox.limits import Limits
from rsigym.local.sandbox.lookups import Resolve, system_resolver
from rsigym.local.sandbox.outlet import Outlet
from rsigym.local.sandbox.proxy import Bounds
from rsigym.local.sandbox.runtime import Runtime
from rsigym.local.sandbox.template import BASE, Template
from rsigym.local.sandbox.tunnel import Traffic
from rsigym.local.sandbox.usage import Usage, measure_usage
from rsigym.platform.errors import OperatorError

__all__ = ["Sandbox"]


class Sandbox(Commands, Files):
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
        self._isolation: Isolation = isolation
        self._ports: dict[int, int] = {}
        self._grant = self._egress = egress or Egress.none()
        self._outlet = Outlet(self.listen, resolve, bounds or Bounds())

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
        egress = self._grant & asked
        if self._isolation == "bubblewrap":
            await self._outlet.set(egress)
        self._egress = egress

    @property
    def egress(self) -> Egress:
        """Where its programs may connect to now: of the grant, what was asked for last."""
        return self._egress

    @property
    def traffic(self) -> Traffic:
        """What its programs have sent and received through the proxy so far."""
        return self._outlet.traffic

    @property
    def alive(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._runtime.alive

    async def ended(self) -> str:
        """Waits until it has ended, by `close` or by itself; why it did.

        Raises:
            OperatorError: It has not been started.
        """
        return await self._runtime.channel.gone()

    async def usage(self) -> Usage:
        """What it takes now: walks through all its files.

        Raises:
            ServiceFailure: It has ended.
        """
        return await measure_usage(self._runtime)

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

    async def listen(self, port: int) -> socket.socket:
        """A listening TCP socket that programs in the sandbox reach at `address(port)`.

        The caller accepts on it from outside, and closes it.

        Raises:
            OSError: The port is taken.
        """
        if self._isolation == "bubblewrap":
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
            OperatorError: It is of plain processes, which have nothing of their own at `/app`.
            ServiceFailure: They cannot be read, or are larger than `Limits.file_mb`.
        """
        if self._isolation == "process":
            raise OperatorError("a sandbox of plain processes cannot be saved: use bubblewrap")
        await self.kill_all()
        await snapshot.save(self._execute, self._python, target)

    @property
    def began_empty(self) -> bool:
        """Whether it started without any files."""
        return self._start_from is None

    async def put_back(self, names: Sequence[str]) -> list[str]:
        """Makes `names` in the home folder, and all below them, what they were when this started.

        For a sandbox in which nothing runs. What is not as it was is moved out of the way, to a
        new folder beside it, and what there is no room for is missing then.

        Returns:
            The first paths that had been changed, caches of Python's left out.

        Raises:
            OperatorError: It started without any files.
            ServiceFailure: It cannot be done.
        """
        if self._start_from is None:
            raise OperatorError("this sandbox started without files to put back")
        return await snapshot.put_back(self._execute, self._python, self._start_from, names)

    @property
    def _python(self) -> Sequence[str]:
        return python_words(self._template, self._isolation)

    async def _execute(self, command: str, stdin: int) -> ExecResult:
        return await self.exec(command, cwd="/", stdin=stdin)
