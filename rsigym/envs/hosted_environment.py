"""The Harbor environment that runs a trial in a sandbox of hosted E2B.

It is Harbor's own, with what a trial on this machine has besides: the run's grant decides about the
internet, and before the tests everything is ended that the agent left running. Where the operator
names a template, that stands in for what a task's Dockerfile starts FROM, as a template does on
this machine, and no image is built; else Harbor has E2B build each task's own.
"""

import asyncio
import shlex
from pathlib import Path
from typing import Any, override

from harbor.environments.base import ExecResult
from harbor.environments.e2b import E2BEnvironment, E2BOptions
from harbor.models.task.config import NetworkMode, NetworkPolicy
from pydantic import Field

from rsigym.local.dockerfile import TaskImage, read_dockerfile
from rsigym.platform.errors import ServiceFailure
from rsigym.services.left_running import end_processes, processes
from rsigym.services.tampering import ALL_HOMES, put_away_startup_files, startup_files

__all__ = ["HostedEnvironment", "HostedOptions"]

_MOST_LOGS_MB = 256


class HostedOptions(E2BOptions):
    """Harbor's own, and the run's."""

    gateway: str = Field(description="The host at which trials reach their model.")
    internet: bool = Field(
        default=False, description="Whether the run grants what tasks ask for of the internet."
    )


class HostedEnvironment(E2BEnvironment):
    """One sandbox at E2B, driven by Harbor."""

    options_model = HostedOptions
    options: HostedOptions  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, *args: Any, **kwargs: Any):
        """
        Args:
            args, kwargs: Harbor's own, and those of `HostedOptions`.
        """
        self._image = TaskImage()
        self._programs = self._startup_files = ""
        self._closing: asyncio.Task[None] | None = None
        super().__init__(*args, **kwargs)
        if self._stands_in:
            self._workdir = self._image.workdir

    @property
    def _stands_in(self) -> bool:
        """Whether a template that was there before stands in for the task's own image."""
        return self.options.prebuilt_template_id is not None

    @override
    def _validate_definition(self) -> None:
        super()._validate_definition()
        dockerfile = self.environment_dir / "Dockerfile"
        if not self._stands_in or not dockerfile.exists():
            return
        self._image = read_dockerfile(dockerfile)
        if self._image.built:
            raise ServiceFailure(
                "the task's Dockerfile has RUN lines, and a template stands in for its image: "
                "leave the template out, so that E2B builds the task's own",
                side="task",
            )

    @override
    def validate_network_policy_support(self, network_policy: NetworkPolicy | None = None) -> None:
        policy = network_policy or self.network_policy
        to_its_model = policy.allowed_hosts == [self.options.gateway]
        offline = policy.network_mode == NetworkMode.NO_NETWORK or to_its_model
        if not self.options.internet and not offline:
            raise ServiceFailure(
                f"the task asks for network_mode {policy.network_mode.value!r} and this run's "
                'sandboxes have no internet: set network_mode = "no-network" in its task.toml, or '
                "grant it",
                side="task",
            )
        super().validate_network_policy_support(policy)

    @override
    async def start(self, force_build: bool) -> None:
        await super().start(force_build)
        if self._stands_in:
            await self.exec(f"mkdir -p {shlex.quote(self._image.workdir)}", cwd="/")
            for copy in self._image.copies:
                if copy.source.is_dir():
                    await self.upload_dir(copy.source, copy.target)
                else:
                    await self.upload_file(copy.source, copy.target)
        self._startup_files = await self._as_guard(startup_files(ALL_HOMES))
        self._programs = await self._as_guard(processes())

    @override
    async def _create_sandbox(self) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """To its end, also where the trial is cancelled: one that nobody knows would go on."""
        making = asyncio.ensure_future(super()._create_sandbox())
        cancelled: asyncio.CancelledError | None = None
        while not making.done():
            try:
                await asyncio.wait({making})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled from making.exception()
        making.result()

    @override
    async def stop(self, delete: bool) -> None:
        """Kills the sandbox: once and whole, however often it is called or cancelled."""
        if self._closing is None:
            if self._sandbox is None:
                return
            self._closing = asyncio.create_task(super().stop(delete))
        await asyncio.shield(self._closing)

    async def end_processes(self) -> str:
        """Ends every process, and puts away every start-up file, that was not there at the start.

        Returns:
            Their names, a line each.

        Raises:
            ServiceFailure: They come to no end.
        """
        put_away = put_away_startup_files(ALL_HOMES, self._startup_files)
        return await self._as_guard(f"{end_processes(self._programs)}\n{put_away}")

    async def _as_guard(self, command: str) -> str:
        """What a command prints whose shell runs nothing from a home folder when it starts."""
        guard = {"HOME": "/dev/null"}
        result = await self.exec(command, cwd="/", env=guard, user="root")
        if result.return_code != 0:
            raise ServiceFailure(f"the sandbox cannot be cleared: {result.stderr}", side="verifier")
        return result.stdout or ""

    @override
    def _startup_env(self) -> dict[str, str]:
        return {**self._image.env, **super()._startup_env()}

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        if path := self._image.env.get("PATH"):
            # A login shell sets its own.
            command = f"export PATH={shlex.quote(path)}\n{command}"
        return await super().exec(command, cwd, env, timeout_sec, user)

    @override
    async def download_dir(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, source_dir: str, target_dir: Path | str
    ) -> None:
        told = await self.exec(f"du -sm {shlex.quote(source_dir)}", cwd="/", user="root")
        size = (told.stdout or "0").partition("\t")[0]
        # An agent may have put another program in the place of `du`.
        if not size.isdecimal() or int(size[:9]) > _MOST_LOGS_MB:
            raise ServiceFailure(
                f"{source_dir} holds more than {_MOST_LOGS_MB} MB, which is not fetched",
                side="harness",
            )
        await super().download_dir(source_dir, target_dir)
