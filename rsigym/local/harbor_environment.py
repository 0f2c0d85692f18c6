"""The Harbor environment that runs a trial in a sandbox of this machine.

There is no image: a template, or the machine's own programs, stands in for what a task's Dockerfile
starts FROM. WORKDIR, ENV and COPY are done, and RUN as far as a user without root can; any other
line is refused by name, so that no task runs in an environment it did not ask for. There is no
internet unless the run grants it: inside, one port of the loopback answers, and what answers there
is served from outside through `on_endpoint`. Plain processes keep none of this: they are for
harnesses and tasks that are trusted.
"""

import asyncio
import shlex
import socket
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, override
from uuid import uuid4

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import (
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)
from harbor.models.task.config import NetworkMode, NetworkPolicy

from rsigym.local.dockerfile import TaskImage, read_dockerfile
from rsigym.local.image_build import MIRRORS, Builder, with_programs
from rsigym.local.sandbox import BASE, Egress, Isolation, Limits, Sandbox, Templates
from rsigym.local.sandbox.cgroups import cgroup_bounds_cpus
from rsigym.local.sandbox.launch import search_path
from rsigym.local.sandbox.layout import FOLDERS, WORKDIR
from rsigym.platform.errors import OperatorError, ServiceFailure

__all__ = ["ENDPOINT_PORT", "OnEndpoint", "SandboxEnvironment"]

ENDPOINT_PORT = 8080
"""The port inside a sandbox behind which the inference endpoint answers."""

_MOST_LOGS_MB = 256

type OnEndpoint = Callable[[socket.socket, str], Awaitable[None]]
"""Takes over the listening socket; the text is its address inside, `http://host:port`."""


class SandboxEnvironment(BaseEnvironment):
    """One sandbox, driven by Harbor.

    Attributes:
        on_endpoint: Set before the trial runs, it is called once the sandbox has started and
            serves the inference endpoint. Left unset, nothing is reachable from inside.
    """

    on_endpoint: OnEndpoint | None = None

    def __init__(
        self,
        *args: Any,
        isolation: Isolation,
        sandboxes: str,
        internet: bool = False,
        templates: Mapping[str, str] | None = None,
        mirrors: Sequence[str] = tuple(MIRRORS),
        **kwargs: Any,
    ):
        """
        Args:
            isolation: How the sandbox is kept apart from the machine.
            sandboxes: The folder below which the sandbox keeps its writable files while it lives.
            internet: Whether the run grants what tasks ask for of the internet.
            templates: Paths of root file systems by the name that tasks start FROM, on top of
                those in `RSIGYM_TEMPLATES`.
            mirrors: Where RUN lines may connect to, as `Egress.only` has it.
            args, kwargs: Harbor's own.
        """
        self._image = TaskImage()
        self._isolation: Isolation = isolation
        self._internet = internet
        self._templates = Templates({name: Path(path) for name, path in (templates or {}).items()})
        self._closing: asyncio.Task[None] | None = None
        self._started: Sandbox | None = None
        super().__init__(*args, **kwargs)
        self._builder = Builder(Path(sandboxes), self._limits(), mirrors)

    @staticmethod
    @override
    def type() -> str:
        return "rsigym-sandbox"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        lists = self._internet and self._isolation == "bubblewrap"
        return EnvironmentCapabilities(
            disable_internet=True,
            dynamic_network_policy=True,
            network_allowlist=lists,
            network_allowlist_hostnames=lists,
            network_allowlist_wildcard_hostnames=lists,
            network_allowlist_ipv4_addresses=lists,
            network_allowlist_ipv6_addresses=lists,
            network_allowlist_ipv4_cidrs=lists,
            network_allowlist_ipv6_cidrs=lists,
        )

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(
            memory_limit=True, cpu_limit=cgroup_bounds_cpus(), fractional_cpus=True
        )

    def _limits(self) -> Limits:
        """The task's own, but no more of a disk than any sandbox has: it is this machine's memory.

        What a trial leaves on this machine's real disk is its logs.
        """
        limits = Limits(cpus=self._effective_cpus, download_mb=_MOST_LOGS_MB)
        if (memory_mb := self._effective_memory_mb) is not None:
            limits = replace(limits, memory_mb=memory_mb)
        sizes = (limits.disk_mb, self._effective_storage_mb)
        return replace(limits, disk_mb=min(size for size in sizes if size is not None))

    @override
    def _validate_definition(self) -> None:
        if (self.environment_dir / "docker-compose.yaml").exists():
            raise ServiceFailure(
                "docker-compose.yaml needs Docker: run this task in the cloud", side="task"
            )
        dockerfile = self.environment_dir / "Dockerfile"
        if dockerfile.exists():
            self._image = read_dockerfile(dockerfile, self._base)
        elif self.task_env_config.docker_image:
            self._image = self._base(self.task_env_config.docker_image)
        if self._image.built and self._isolation == "process":
            raise ServiceFailure(
                "the task's Dockerfile has RUN lines, and without isolation they would run as the "
                "user of this machine: use --sandbox bubblewrap",
                side="task",
            )
        if self._image.built:
            self._image = replace(self._image, env=with_programs(self._image.env))
        given = self._templates.description(self._image.base).workdir
        for path in {self._workdir, *self._image.places} - {given}:
            if not any(PurePosixPath(path).is_relative_to(f"/{name}") for name in FOLDERS):
                raise ServiceFailure(
                    f"the task uses {path}, and of a local sandbox only "
                    f"{', '.join(f'/{name}' for name in FOLDERS)} can be written: use /app",
                    side="task",
                )

    @property
    def _template(self) -> str:
        return self._image.base if self._image.base in self._templates.names else BASE.name

    def _base(self, name: str) -> TaskImage:
        """What stands in for the image `name`."""
        template = self._templates.description(name)
        path = template.env.get("PATH") or search_path(self._isolation)
        return TaskImage(name, template.workdir, {**template.env, "PATH": path})

    @override
    def validate_network_policy_support(self, network_policy: NetworkPolicy | None = None) -> None:
        policy = network_policy or self.network_policy
        mode = policy.network_mode
        if mode != NetworkMode.NO_NETWORK and not self._internet:
            raise ServiceFailure(
                f"the task asks for network_mode {mode.value!r} and this run's sandboxes have no "
                'internet: set network_mode = "no-network" in its task.toml, or grant it',
                side="task",
            )
        if mode == NetworkMode.ALLOWLIST and self._isolation == "process":
            raise ServiceFailure(
                "the task allows certain hosts only, and without isolation no host can be kept "
                "from it: use --sandbox bubblewrap",
                side="task",
            )
        _egress(policy)

    @override
    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        await self._sandbox.set_egress(_egress(network_policy))

    @override
    async def start(self, force_build: bool) -> None:
        self.logger.info("FROM %s: template %s stands in", self._image.base, self._template)
        template = await self._templates.get(self._template)
        seconds = self.task_env_config.build_timeout_sec
        self._started = Sandbox(
            self._builder.sandboxes / uuid4().hex,
            isolation=self._isolation,
            limits=self._builder.limits,
            template=template,
            start_from=await self._builder.build(self._image, template, seconds),
            egress=Egress.public() if self._internet else Egress.none(),
        )
        await self._sandbox.start()
        await self._apply_network_policy(self.network_policy)
        if self._workdir != template.workdir:
            await self.exec(f"mkdir -p {shlex.quote(self._workdir)}", cwd=WORKDIR)
        for copy in self._image.copies:
            await self._sandbox.upload(copy.source, copy.target)
        await self._upload_environment_dir_after_start()
        if self.on_endpoint is not None:
            listener = await self._sandbox.listen(ENDPOINT_PORT)
            await self.on_endpoint(listener, f"http://{self._sandbox.address(ENDPOINT_PORT)}")

    @property
    def _sandbox(self) -> Sandbox:
        if self._started is None:
            raise OperatorError("this environment has not been started")
        return self._started

    @override
    async def stop(self, delete: bool) -> None:
        """Closes the sandbox. However often it is called or cancelled, it closes once and whole."""
        if self._started is None:
            return
        if self._closing is None:
            self._closing = asyncio.create_task(self._started.close())
        await asyncio.shield(self._closing)

    async def kill_all(self) -> None:
        """Ends every process in the sandbox; answers once they are gone."""
        await self._sandbox.kill_all()

    @property
    def began_empty(self) -> bool:
        """Whether its sandbox started without any files, a home folder's included."""
        return self._sandbox.began_empty

    async def put_back(self, names: Sequence[str]) -> list[str]:
        """Makes `names` in the home folder what they were when it started; see `Sandbox`."""
        return await self._sandbox.put_back(names)

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


def _egress(policy: NetworkPolicy) -> Egress:
    """What a task asks for, in a sandbox's own words."""
    match policy.network_mode:
        case NetworkMode.NO_NETWORK:
            return Egress.none()
        case NetworkMode.PUBLIC:
            return Egress.public()
        case NetworkMode.ALLOWLIST:
            try:
                return Egress.only(policy.allowed_hosts)
            except ValueError as error:
                raise ServiceFailure(f"allowed_hosts: {error}", side="task") from error
