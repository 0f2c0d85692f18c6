"""The archive agent by itself, in a real sandbox."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from harbor.agents.installed.base import NonZeroAgentExitCodeError
from harbor.models.agent.context import AgentContext
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from rsigym.local.harbor_environment import SandboxEnvironment
from rsigym.local.sandbox import choose_isolation
from rsigym.platform.errors import OperatorError
from rsigym.services.archive_agent import ArchiveAgent
from rsigym.services.harness import pack


class Rig:
    """Runs one harness in one sandbox."""

    def __init__(self, root: Path):
        self.root = root
        self.logs = root / "trial" / "agent"
        self.logs.mkdir(parents=True)

    def run(self, *, api_base: str | None = "http://127.0.0.1:8080/v1", **files: str) -> None:
        folder = self.root / "harness"
        folder.mkdir()
        for name, content in files.items():
            (folder / f"{name}.sh").write_text(content)
        archive = pack(folder).write(self.root / "harness.tar.gz")
        agent = ArchiveAgent(
            self.logs,
            archive=str(archive),
            api_base=api_base,
            model_name="base",
            skip_model_parsing=True,
        )
        asyncio.run(self._drive(agent))

    async def _drive(self, agent: ArchiveAgent) -> None:
        (self.root / "environment").mkdir()
        environment = SandboxEnvironment(
            environment_dir=self.root / "environment",
            environment_name="task",
            session_id="session",
            trial_paths=TrialPaths(self.root / "trial"),
            task_env_config=EnvironmentConfig(network_mode=NetworkMode.NO_NETWORK),
            network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK),
            isolation="bubblewrap",
            sandboxes=str(self.root / "sandboxes"),
        )
        await environment.start(force_build=False)
        try:
            await agent.setup(environment)
            await agent.run("Do it.", environment, AgentContext())
        finally:
            await environment.download_dir("/logs/agent", self.logs)
            await environment.stop(delete=True)

    def log(self, name: str) -> str:
        return (self.logs / name).read_text()


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setenv("RSIGYM_HOME", str(tmp_path / "home"))
    try:
        choose_isolation("bubblewrap")
    except OperatorError as error:
        pytest.skip(str(error))
    return Rig(tmp_path)


def test_install_runs_first_beside_the_files_of_the_harness(rig: Rig) -> None:
    rig.run(
        install="ls run.sh helper.sh && echo ready > installed.txt",
        run='. "$(dirname "$0")/helper.sh"; cat "$(dirname "$0")/installed.txt"; pwd',
        helper="echo helped",
    )
    assert rig.log("install-stdout.txt").split() == ["helper.sh", "run.sh"]
    assert rig.log("stdout.txt").split() == ["helped", "ready", "/app"]


def test_both_outputs_are_kept_apart_and_bounded(rig: Rig) -> None:
    rig.run(run="head -c 3000000 /dev/zero | tr '\\0' x; echo oops >&2")
    assert rig.log("stdout.txt") == "x" * 2**20
    assert rig.log("stderr.txt") == "oops\n"


def test_a_background_process_does_not_hold_the_agent_up(rig: Rig) -> None:
    rig.run(run="sleep 600 & echo started")
    assert rig.log("stdout.txt") == "started\n"


def test_a_trajectory_is_left_where_harbor_looks_for_it(rig: Rig) -> None:
    rig.run(run="echo '{}' > /logs/agent/trajectory.json")
    assert rig.log("trajectory.json") == "{}\n"


@pytest.mark.parametrize("script", ["install", "run"])
def test_a_failure_names_the_script_and_quotes_its_last_words(rig: Rig, script: str) -> None:
    files: dict[str, Any] = {"run": "true", script: "echo first; echo last words >&2; exit 7"}
    with pytest.raises(
        NonZeroAgentExitCodeError,
        match=rf"{script}\.sh of the harness ended with exit status 7: last words",
    ):
        rig.run(**files)


def test_a_run_without_an_endpoint_is_refused(rig: Rig) -> None:
    with pytest.raises(ValueError, match="base URL"):
        rig.run(api_base=None, run="true")
