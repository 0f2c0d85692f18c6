"""The Harbor environment that runs a trial in a sandbox of this machine.

There is no image: the machine's own programs stand in for what a task's Dockerfile starts FROM.
WORKDIR, ENV and COPY are done; a line that only a build could do is refused by name, so that no
task runs in an environment it did not ask for. There is no internet either: inside, one port of
the loopback answers, and what answers there is served from outside through `on_endpoint`.
"""

import asyncio
import posixpath
import shlex
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, override
from uuid import uuid4

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import (
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)
from harbor.models.task.config import NetworkMode, NetworkPolicy

from rsigym.local.sandbox import Isolation, Limits, Sandbox
from rsigym.local.sandbox.layout import FOLDERS, WORKDIR
from rsigym.platform.errors import ServiceFailure

__all__ = ["ENDPOINT_PORT", "OnEndpoint", "SandboxEnvironment", "TaskImage", "read_dockerfile"]

ENDPOINT_PORT = 8080
"""The port inside a sandbox behind which the inference endpoint answers."""

type OnEndpoint = Callable[[socket.socket, str], Awaitable[None]]
"""Takes over the listening socket; the text is its address inside, `http://host:port`."""


class SandboxEnvironment(BaseEnvironment):
    """One sandbox, driven by Harbor.

    Attributes:
        on_endpoint: Set before the trial runs, it is called once the sandbox has started and
            serves the inference endpoint. Left unset, nothing is reachable from inside.
    """

    on_endpoint: OnEndpoint | None = None

    def __init__(self, *args: Any, isolation: Isolation, sandboxes: str, **kwargs: Any):
        """
        Args:
            isolation: How the sandbox is kept apart from the machine.
            sandboxes: The folder below which the sandbox keeps its writable files while it lives.
            args, kwargs: Harbor's own.
        """
        self._image = TaskImage()
        self._closing: asyncio.Task[None] | None = None
        super().__init__(*args, **kwargs)
        memory_mb = self._effective_memory_mb
        self._sandbox = Sandbox(
            Path(sandboxes) / uuid4().hex,
            isolation=isolation,
            limits=Limits() if memory_mb is None else Limits(memory_mb=memory_mb),
        )

    @staticmethod
    @override
    def type() -> str:
        return "rsigym-sandbox"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(memory_limit=True, fractional_cpus=True)

    @override
    def _validate_definition(self) -> None:
        if (self.environment_dir / "docker-compose.yaml").exists():
            raise _task_failure("docker-compose.yaml needs Docker: run this task in the cloud")
        dockerfile = self.environment_dir / "Dockerfile"
        if dockerfile.exists():
            self._image = read_dockerfile(dockerfile)
        for path in (self._workdir, *(target for _, target in self._image.copies)):
            if not any(PurePosixPath(path).is_relative_to(f"/{name}") for name in FOLDERS):
                raise _task_failure(
                    f"the task uses {path}, and of a local sandbox only "
                    f"{', '.join(f'/{name}' for name in FOLDERS)} can be written: use /app"
                )

    @override
    def validate_network_policy_support(self, network_policy: NetworkPolicy | None = None) -> None:
        mode = (network_policy or self.network_policy).network_mode
        if mode != NetworkMode.NO_NETWORK:
            raise _task_failure(
                f"the task asks for network_mode {mode.value!r} and local sandboxes have no "
                'internet: set network_mode = "no-network" in its task.toml'
            )

    @override
    async def start(self, force_build: bool) -> None:
        await self._sandbox.start()
        if self._workdir != WORKDIR:
            await self.exec(f"mkdir -p {shlex.quote(self._workdir)}", cwd=WORKDIR)
        for source, target in self._image.copies:
            await self._sandbox.upload(source, target)
        await self._upload_environment_dir_after_start()
        if self.on_endpoint is not None:
            listener = await self._sandbox.listen(ENDPOINT_PORT)
            await self.on_endpoint(listener, f"http://{self._sandbox.address(ENDPOINT_PORT)}")

    @override
    async def stop(self, delete: bool) -> None:
        """Closes the sandbox. However often it is called or cancelled, it closes once and whole."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._sandbox.close())
        await asyncio.shield(self._closing)

    async def kill_all(self) -> None:
        """Ends every process in the sandbox; answers once they are gone."""
        await self._sandbox.kill_all()

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        user = self._resolve_user(user)
        result = await self._sandbox.exec(
            command,
            cwd=cwd or self._workdir,
            env={**self._image.env, **(self._merge_env(env) or {})},
            timeout_s=timeout_sec,
            user=None if user is None else str(user),
        )
        if result.timed_out:
            raise RuntimeError(f"command timed out after {timeout_sec} s: {command[:200]}")
        return ExecResult(
            stdout=result.stdout.decode(errors="replace"),
            stderr=result.stderr.decode(errors="replace"),
            return_code=result.exit_code,
        )

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        source = Path(source_path)
        with tempfile.TemporaryDirectory() as folder:
            if source.suffix == ".md":
                source = await asyncio.to_thread(self._told, source, Path(folder))
            await self._sandbox.upload(source, target_path)

    def _told(self, source: Path, folder: Path) -> Path:
        """Prose, such as an instruction: the paths it names are the ones its reader will use."""
        told = folder / source.name
        text = source.read_bytes().decode(errors="surrogateescape")
        told.write_bytes(self._sandbox.rewrite(text).encode(errors="surrogateescape"))
        return told

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._sandbox.upload(Path(source_dir), target_dir)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self._sandbox.download(source_path, Path(target_path))

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await self._sandbox.download(source_dir, Path(target_dir))

    @property
    def _workdir(self) -> str:
        return self.task_env_config.workdir or self._image.workdir


@dataclass(frozen=True)
class TaskImage:
    """What a Dockerfile asks for and a sandbox can give.

    Attributes:
        workdir: Where commands run.
        env: Their environment variables.
        copies: Host file or folder, and the path inside that it becomes, in order.
    """

    workdir: str = WORKDIR
    env: dict[str, str] = field(default_factory=dict)
    copies: tuple[tuple[Path, str], ...] = ()


_WITHOUT_EFFECT = {"CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL"}
"""Harbor replaces the main process, and nobody looks from outside at the rest."""


def read_dockerfile(path: Path) -> TaskImage:
    """Reads what a sandbox can give; COPY is relative to the Dockerfile's folder.

    Raises:
        ServiceFailure: On the first line that needs a build, with `file` and `line`.
    """
    workdir, env, copies = WORKDIR, dict[str, str](), list[tuple[Path, str]]()
    stages = 0
    for number, line in _logical_lines(path.read_text()):
        instruction, _, value = line.partition(" ")
        value = value.strip()
        try:
            match instruction.upper():
                case "FROM" if stages == 0:
                    stages += 1
                case "WORKDIR":
                    workdir = posixpath.normpath(posixpath.join(workdir, _literal(value)))
                case "ENV":
                    env |= _variables(_literal(value))
                case "COPY":
                    copies += _copies(path.parent, workdir, _literal(value))
                case name if name in _WITHOUT_EFFECT:
                    pass
                case name:
                    raise ValueError(f"local sandboxes build no images and cannot do {name}")
        except ValueError as error:
            raise _task_failure(
                f"environment/{path.name} line {number} ({line[:200]!r}): {error}; "
                "use FROM, WORKDIR, ENV and COPY of files only, or run this task in the cloud",
                file=f"environment/{path.name}",
                line=number,
            ) from error
    return TaskImage(workdir, env, tuple(copies))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Instructions with the number of their first line; continuations joined, comments gone."""
    start, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        start = start if parts else number
        parts.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            yield start, " ".join(parts)
            parts = []
    if parts:
        yield start, " ".join(parts)


def _literal(value: str) -> str:
    if "$" in value or "<<" in value:
        raise ValueError("variables and here-documents are not supported")
    return value


def _variables(value: str) -> dict[str, str]:
    name, _, rest = value.partition(" ")
    # Without an equals sign it is the old form, of one variable: ENV NAME the whole rest.
    words = shlex.split(value) if "=" in name else [f"{name}={rest}" if rest else name]
    if not all("=" in word for word in words):
        raise ValueError("ENV needs NAME=value")
    return dict(word.split("=", 1) for word in words)


def _copies(context: Path, workdir: str, value: str) -> Iterator[tuple[Path, str]]:
    words = shlex.split(value)
    if len(words) < 2 or words[0].startswith(("--", "[")):
        raise ValueError("COPY takes sources and a target here, without options")
    *sources, target = words
    inside = posixpath.normpath(posixpath.join(workdir, target))
    is_folder = target.endswith("/") or inside == workdir or len(sources) > 1
    for name in sources:
        source = (context / name.lstrip("/")).resolve()
        if not source.is_relative_to(context.resolve()) or not source.exists():
            raise ValueError(f"{name!r} is not in the environment folder")
        yield (
            source,
            posixpath.join(inside, source.name) if is_folder and source.is_file() else inside,
        )


def _task_failure(message: str, **details: str | int) -> ServiceFailure:
    return ServiceFailure(message, side="task", **details)
