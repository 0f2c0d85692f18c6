"""The sandbox as Harbor sees it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from rsigym.local.harbor_environment import SandboxEnvironment
from rsigym.local.sandbox import Isolation, choose_isolation
from rsigym.platform.errors import OperatorError, ServiceFailure
from rsigym.platform.home import home
from tests.local.sandbox.root_file_system import make_root

NO_NETWORK = NetworkMode.NO_NETWORK


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSIGYM_HOME", str(tmp_path / "home"))


@pytest.fixture(params=["bubblewrap", "process"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    try:
        return choose_isolation(request.param)
    except OperatorError as error:
        pytest.skip(str(error))


def environment(
    root: Path,
    isolation: Isolation = "process",
    *,
    dockerfile: str = "FROM scratch\n",
    config: EnvironmentConfig | None = None,
    mode: NetworkMode = NO_NETWORK,
    hosts: Sequence[str] = (),
    env: dict[str, str] | None = None,
    **more: Any,
) -> SandboxEnvironment:
    (root / "environment").mkdir(exist_ok=True)
    (root / "environment" / "Dockerfile").write_text(dockerfile)
    return SandboxEnvironment(
        environment_dir=root / "environment",
        environment_name="task",
        session_id="session",
        trial_paths=TrialPaths(root / "trial"),
        task_env_config=config or EnvironmentConfig(network_mode=mode),
        network_policy=NetworkPolicy(network_mode=mode, allowed_hosts=list(hosts)),
        persistent_env=env,
        isolation=isolation,
        sandboxes=str(home() / "sandboxes"),
        **more,
    )


def inside(
    sandbox: SandboxEnvironment, work: Callable[[SandboxEnvironment], Awaitable[None]]
) -> None:
    async def drive() -> None:
        await sandbox.start(force_build=False)
        try:
            await work(sandbox)
        finally:
            await sandbox.stop(delete=True)
            await sandbox.stop(delete=True)

    asyncio.run(drive())


def test_files_and_folders_go_in_and_come_out(tmp_path: Path, isolation: Isolation) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "a.txt").write_text("a")
    (tmp_path / "in" / "b.txt").write_text("b")

    async def work(sandbox: SandboxEnvironment) -> None:
        await sandbox.upload_dir(tmp_path / "in", "/app/data")
        await sandbox.upload_file(tmp_path / "in" / "b.txt", "/app/c.txt")
        listed = await sandbox.exec("cat data/sub/a.txt data/b.txt c.txt")
        assert (listed.stdout, listed.return_code) == ("abb", 0)
        assert await sandbox.is_dir("/app/data")
        assert not await sandbox.is_dir("/app/c.txt")
        await sandbox.download_dir("/app/data", tmp_path / "out")
        await sandbox.download_file("/app/c.txt", tmp_path / "c.txt")

    inside(environment(tmp_path, isolation), work)
    assert (tmp_path / "out" / "sub" / "a.txt").read_text() == "a"
    assert (tmp_path / "c.txt").read_text() == "b"
    assert list((home() / "sandboxes").iterdir()) == []


def test_a_command_gets_the_image_the_task_and_its_own_variables(
    tmp_path: Path, isolation: Isolation
) -> None:
    async def work(sandbox: SandboxEnvironment) -> None:
        shown = await sandbox.exec('echo "$A $B $C"', env={"C": "call"})
        assert shown.stdout == "image trial call\n"

    dockerfile = 'FROM scratch\nENV A=image B="from image" \\\n  C=image\n'
    inside(environment(tmp_path, isolation, dockerfile=dockerfile, env={"B": "trial"}), work)


def test_commands_start_in_the_working_directory_of_the_task(
    tmp_path: Path, isolation: Isolation
) -> None:
    async def work(sandbox: SandboxEnvironment) -> None:
        await sandbox.exec("echo here > made.txt")
        assert (await sandbox.exec("cat /app/repo/made.txt")).stdout == "here\n"
        assert (await sandbox.exec("cat made.txt", cwd="/app/repo")).stdout == "here\n"

    inside(environment(tmp_path, isolation, dockerfile="FROM scratch\nWORKDIR repo\n"), work)


def test_the_files_of_the_image_are_there_at_the_start(
    tmp_path: Path, isolation: Isolation
) -> None:
    (tmp_path / "environment" / "data").mkdir(parents=True)
    (tmp_path / "environment" / "data" / "a.txt").write_text("a")
    (tmp_path / "environment" / "b.txt").write_text("b")

    async def work(sandbox: SandboxEnvironment) -> None:
        assert (await sandbox.exec("cat in/a.txt in/b.txt c.txt")).stdout == "abb"

    dockerfile = "FROM scratch\nCOPY data /app/in\nCOPY b.txt in/\nCOPY b.txt c.txt\n"
    inside(environment(tmp_path, isolation, dockerfile=dockerfile), work)


def test_a_command_out_of_time_is_an_error(tmp_path: Path, isolation: Isolation) -> None:
    async def work(sandbox: SandboxEnvironment) -> None:
        with pytest.raises(RuntimeError, match="timed out after 1 s: sleep 300"):
            await sandbox.exec("sleep 300", timeout_sec=1)
        assert (await sandbox.exec("echo alive")).stdout == "alive\n"

    inside(environment(tmp_path, isolation), work)


def test_killing_all_leaves_a_sandbox_that_works(tmp_path: Path, isolation: Isolation) -> None:
    async def work(sandbox: SandboxEnvironment) -> None:
        await sandbox.exec("(while :; do echo >> beats; done) > /dev/null 2>&1 & sleep 0.1")
        await sandbox.kill_all()
        still = "size=$(stat -c %s beats); sleep 0.2; [ $size = $(stat -c %s beats) ]"
        assert (await sandbox.exec(still)).return_code == 0

    inside(environment(tmp_path, isolation), work)


def test_the_endpoint_is_handed_out_once_the_sandbox_runs(
    tmp_path: Path, isolation: Isolation
) -> None:
    sandbox = environment(tmp_path, isolation)
    offered = list[tuple[socket.socket, str]]()

    async def on_endpoint(listener: socket.socket, address: str) -> None:
        offered.append((listener, address))

    async def work(sandbox: SandboxEnvironment) -> None:
        listener, address = offered[0]
        host, port = address.removeprefix("http://").split(":")
        with listener:
            connect = f"exec 3<>/dev/tcp/{host}/{port} && echo hello >&3"
            assert (await sandbox.exec(connect)).return_code == 0
            listener.settimeout(10)
            connection, _ = await asyncio.to_thread(listener.accept)
            with connection:
                assert connection.recv(16) == b"hello\n"

    sandbox.on_endpoint = on_endpoint
    inside(sandbox, work)


def test_a_task_that_needs_the_internet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServiceFailure, match="have no internet") as refused:
        environment(tmp_path, mode=NetworkMode.PUBLIC)
    assert refused.value.side == "task"


def test_a_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="GPU"):
        environment(tmp_path, config=EnvironmentConfig(network_mode=NO_NETWORK, gpus=1))


def test_compose_is_refused(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "docker-compose.yaml").write_text("services: {}")
    with pytest.raises(ServiceFailure, match=r"docker-compose\.yaml"):
        environment(tmp_path)


def test_what_run_lines_leave_is_there_at_the_start(tmp_path: Path, bubblewrap: Isolation) -> None:
    async def work(sandbox: SandboxEnvironment) -> None:
        assert (await sandbox.exec("cat made.txt; tool")).stdout == "made\nran\n"

    dockerfile = (
        "FROM scratch\nWORKDIR /app/in\nRUN echo made > made.txt && mkdir -p ~/.local/bin\n"
        "COPY tool /home/user/.local/bin/\nRUN chmod +x ~/.local/bin/tool\n"
    )
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment/tool").write_text("#!/bin/bash\necho ran\n")
    for _ in range(2):
        inside(environment(tmp_path, bubblewrap, dockerfile=dockerfile), work)
    assert len(list((home() / "builds").glob("*.tar"))) == 1


def test_run_lines_need_isolation(tmp_path: Path) -> None:
    with pytest.raises(ServiceFailure, match="RUN lines") as refused:
        environment(tmp_path, "process", dockerfile="FROM scratch\nRUN true\n")
    assert refused.value.side == "task"


def test_a_task_may_start_from_a_template(folder: Path, bubblewrap: Isolation) -> None:
    root = make_root(folder / "small" / "rootfs", python=False)
    (root.parent / "template.json").write_text('{"env": {"A": "template"}, "workdir": "/opt"}')
    templates = {"small:1": str(root.parent)}

    async def work(sandbox: SandboxEnvironment) -> None:
        seen = await sandbox.exec("pwd; cat tool /etc/os-release; echo $A $B")
        assert seen.stdout == "/opt\nof the template\nNAME=Small\ntemplate template!\n"

    dockerfile = "FROM small:1\nENV B=$A!\n"
    inside(environment(folder, bubblewrap, dockerfile=dockerfile, templates=templates), work)


ALLOWLIST, PUBLIC = NetworkMode.ALLOWLIST, NetworkMode.PUBLIC


def test_the_internet_is_there_as_far_as_the_task_asks_and_the_run_grants(
    tmp_path: Path, bubblewrap: Isolation
) -> None:
    async def status(sandbox: SandboxEnvironment, host: str) -> str:
        ask = f"exec 3<>/dev/tcp/127.0.0.1/3128 && echo -e 'CONNECT {host} HTTP/1.1\\r\\n\\r' >&3"
        answer = await sandbox.exec(f"{ask} && head -1 <&3")
        return (answer.stdout or "").partition(" ")[2][:3]

    async def work(sandbox: SandboxEnvironment) -> None:
        assert await status(sandbox, "other.invalid:443") == "403"
        assert await status(sandbox, "here.invalid:443") == "502"  # allowed, and there is none
        assert await status(sandbox, "127.0.0.1:80") == "403"
        await sandbox.set_network_policy(NetworkPolicy(network_mode=PUBLIC))
        assert await status(sandbox, "127.0.0.1:80") == "403"
        await sandbox.set_network_policy(NetworkPolicy(network_mode=NO_NETWORK))
        assert await status(sandbox, "here.invalid:443") == ""

    hosts = ["here.invalid", "127.0.0.1"]
    inside(environment(tmp_path, bubblewrap, mode=ALLOWLIST, hosts=hosts, internet=True), work)


@pytest.mark.parametrize("mode", [PUBLIC, ALLOWLIST])
def test_what_the_run_does_not_grant_is_refused_later_too(
    tmp_path: Path, mode: NetworkMode
) -> None:
    made = environment(tmp_path)
    with pytest.raises(ServiceFailure, match="have no internet"):
        asyncio.run(made.set_network_policy(NetworkPolicy(network_mode=mode)))


def test_plain_processes_cannot_be_kept_to_a_list(tmp_path: Path) -> None:
    environment(tmp_path, mode=PUBLIC, internet=True)
    with pytest.raises(ServiceFailure, match="no host can be kept"):
        environment(tmp_path, mode=ALLOWLIST, hosts=["a.test"], internet=True)


@pytest.mark.parametrize("line", ["WORKDIR /srv", "COPY Dockerfile /etc/", "WORKDIR /app/../usr"])
def test_a_place_that_no_sandbox_has_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ServiceFailure, match="use /app"):
        environment(tmp_path, dockerfile=f"FROM scratch\n{line}\n")
