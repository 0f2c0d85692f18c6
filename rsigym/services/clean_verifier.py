"""The verifier that takes nothing over from the agent but its work.

An agent may leave processes that edit the reward while it is decided, a reward of its own, tests
of its own, or a Python package that the tests would import. All of it is gone before a task's
tests run. What the agent made in the task's working directory stays: that is what is graded.
"""

import shlex
from typing import Protocol, override, runtime_checkable

from harbor.models.trial.paths import EnvironmentPaths
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.verifier import Verifier

from rsigym.platform.errors import ServiceFailure

__all__ = ["CleanVerifier"]


@runtime_checkable
class _KillsAll(Protocol):
    async def kill_all(self) -> None: ...


class CleanVerifier(Verifier):
    """Harbor's verifier behind a guard."""

    @override
    async def verify(self) -> VerifierResult:
        await self._end_processes()
        await self._empty_folders()
        # A package in the agent's home folder would be imported before the tests' own code.
        self.override_env = {"PYTHONNOUSERSITE": "1", **self.override_env}
        return await super().verify()

    async def _end_processes(self) -> None:
        if isinstance(self.environment, _KillsAll):
            await self.environment.kill_all()
            return
        # As the agent's user: it spares init, this shell and the provider's own daemons.
        with self.environment.with_default_user(self.task.config.agent.user):
            await self.environment.exec("kill -9 -1")

    async def _empty_folders(self) -> None:
        paths = EnvironmentPaths.for_os(self.environment.os)
        # An image that brings its tests owns that folder; the agent never ran in it.
        folders = [paths.verifier_dir, *([] if self._skip_tests_upload else [paths.tests_dir])]
        given = " ".join(shlex.quote(str(folder)) for folder in folders)
        result = await self.environment.exec(
            f'for folder in {given}; do [ ! -L "$folder" ] || rm "$folder"; done && '
            f"mkdir -p {given} && chmod -R 777 {given} && find {given} -mindepth 1 -delete",
            user="root",
        )
        if result.return_code != 0:
            raise ServiceFailure(
                f"{given} could not be emptied before verification: {result.stderr}",
                side="verifier",
            )
