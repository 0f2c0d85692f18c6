"""Whole trials, in real sandboxes: what decides a reward, what goes wrong, and what is left."""

import asyncio
import json
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation, choose_isolation
from rsigym.platform.errors import BadCall, OperatorError
from rsigym.platform.home import home
from rsigym.services.harness import pack
from rsigym.services.trials import (
    TrialQueue,
    TrialRecord,
    TrialSpec,
    list_trial_files,
    load_record,
    read_trial_file,
    run_trial,
)

TASK_TOML = """
schema_version = "1.4"
[agent]
timeout_sec = {agent_timeout}
[verifier]
timeout_sec = {verifier_timeout}
[environment]
network_mode = "{network}"
"""

GRADE = """
if [ "$(cat /app/answer.txt 2>/dev/null)" = "42" ]
then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt
fi
"""

ANSWER = "echo 42 > /app/answer.txt\n"


@asynccontextmanager
async def serve(listener: socket.socket) -> AsyncIterator[None]:
    """Answers every request with the number 42."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n42")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, sock=listener)
    try:
        yield
    finally:
        server.close()


@dataclass
class Bench:
    """Tasks, harnesses and trials below one folder."""

    root: Path
    isolation: Isolation

    def task(
        self,
        name: str = "task",
        *,
        grade: str = GRADE,
        instruction: str = "Write 42.",
        dockerfile: str = "FROM debian:stable\n",
        agent_timeout: float = 60,
        verifier_timeout: float = 60,
        network: str = "no-network",
    ) -> Path:
        task = self.root / "tasks" / name
        files = {
            "task.toml": TASK_TOML.format(
                agent_timeout=agent_timeout, verifier_timeout=verifier_timeout, network=network
            ),
            "instruction.md": instruction,
            "environment/Dockerfile": dockerfile,
            "tests/test.sh": f"#!/bin/bash\n{grade}",
        }
        for path, content in files.items():
            (task / path).parent.mkdir(parents=True, exist_ok=True)
            (task / path).write_text(content)
        return task

    def harness(self, run: str, **files: str) -> Path:
        folder = self.root / "harnesses" / str(len(list(self.root.glob("harnesses/*"))))
        folder.mkdir(parents=True)
        for name, content in {"run": run, **files}.items():
            (folder / f"{name}.sh").write_text(content)
        return pack(folder).write(folder.with_suffix(".tar.gz"))

    def spec(self, task: Path, harness: Path, name: str = "trial") -> TrialSpec:
        return TrialSpec(
            name=name,
            task=task,
            attempt=0,
            harness=harness,
            model="tinker://run/weights/sampler-1",
            timeout_multiplier=1.0,
            environment="rsigym.local.harbor_environment:SandboxEnvironment",
            environment_kwargs={
                "isolation": self.isolation,
                "sandboxes": str(home() / "sandboxes"),
            },
            trials_dir=self.root / "trials",
        )

    def run(self, run: str, *, task: Path | None = None, **files: str) -> TrialRecord:
        spec = self.spec(task or self.task(), self.harness(run, **files))
        record = asyncio.run(run_trial(spec, serve))
        assert self.leftovers() == []
        return record

    def leftovers(self) -> list[Path]:
        """The records of sandboxes that are not gone, and the folders of those that run here."""
        return list(home().glob("sandboxes/*"))


def isolations(*wanted: Isolation) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return pytest.mark.parametrize("bench", wanted, indirect=True)


both = isolations("bubblewrap", "process")


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("RSIGYM_HOME", str(tmp_path / "home"))
    wanted: Isolation = getattr(request, "param", "bubblewrap")
    try:
        return Bench(tmp_path, choose_isolation(wanted))
    except OperatorError as error:
        pytest.skip(str(error))


def read(record: TrialRecord, name: str) -> str:
    return read_trial_file(record.folder, name).text


@both
@pytest.mark.parametrize(("answer", "reward"), [("42", 1.0), ("41", 0.0)])
def test_the_work_decides_the_reward(bench: Bench, answer: str, reward: float) -> None:
    record = bench.run(f"echo {answer} > answer.txt")
    assert (record.reward, record.rewards, record.error) == (reward, {"reward": reward}, None)
    assert set(record.seconds) == {"environment", "setup", "agent", "verifier"}
    assert record.started < record.finished


@both
def test_the_instruction_comes_on_standard_input(bench: Bench) -> None:
    instruction = "Añade 1 to 41.\n$(touch ran) `touch ran` 'quoted' \"twice\"\n"
    record = bench.run("cat > /logs/agent/seen.txt", task=bench.task(instruction=instruction))
    assert read(record, "agent/seen.txt").strip() == instruction.strip()
    assert record.error is None


@both
def test_the_paths_of_an_instruction_can_be_used(bench: Bench) -> None:
    task = bench.task(instruction="Write the number 42 to /app/answer.txt and stop.")
    record = bench.run("path=$(grep -o '[^ ]*answer.txt') && echo 42 > \"$path\"", task=task)
    assert (record.reward, record.error) == (1.0, None)


@both
def test_the_endpoint_answers_inside_the_sandbox(bench: Bench) -> None:
    run = (
        "python3 -c 'import os, urllib.request as r; "
        'print(r.urlopen(os.environ["OPENAI_API_BASE"] + "/models").read().decode())\' '
        "> answer.txt"
    )
    assert bench.run(run).reward == 1.0


def test_nothing_but_the_endpoint_is_reachable(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        probe = f"""
            import socket
            for address in [("127.0.0.1", {port}), ("1.1.1.1", 53), ("169.254.169.254", 80)]:
                try:
                    socket.create_connection(address, timeout=2)
                    print("reached", address)
                except OSError:
                    print("refused")
            """
        record = bench.run("python3 - <<'E'\n" + textwrap.dedent(probe) + "\nE")
    assert read(record, "agent/stdout.txt").split() == ["refused"] * 3


@both
def test_a_harness_sees_its_model_and_no_secret_of_the_host(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-very-secret")
    record = bench.run("env; cat /proc/$$/environ | tr '\\0' '\\n'")
    seen = read(record, "agent/stdout.txt")
    assert "tml-very-secret" not in seen
    assert "OPENAI_API_KEY=local\n" in seen
    assert "OPENAI_MODEL=tinker://run/weights/sampler-1\n" in seen


@both
def test_a_crashed_harness_keeps_the_reward_of_its_work(bench: Bench) -> None:
    record = bench.run(f"{ANSWER} echo 'no more ideas' >&2; exit 3")
    assert record.reward == 1.0
    assert record.error is not None
    assert (record.error.side, record.error.type) == ("harness", "NonZeroAgentExitCodeError")
    assert "exit status 3: no more ideas" in record.error.message


@both
def test_a_harness_out_of_time_is_stopped_and_graded(bench: Bench) -> None:
    record = bench.run(f"{ANSWER} sleep 300; rm answer.txt", task=bench.task(agent_timeout=1))
    assert record.reward == 1.0
    assert record.error is not None
    assert (record.error.side, record.error.type) == ("harness", "AgentTimeoutError")


def test_the_timeout_multiplier_stretches_the_task(bench: Bench) -> None:
    spec = bench.spec(bench.task(agent_timeout=600), bench.harness("sleep 300"))
    record = asyncio.run(run_trial(replace(spec, timeout_multiplier=0.002), serve))
    assert record.error is not None
    assert record.error.type in {"AgentTimeoutError", "AgentSetupTimeoutError"}


@both
def test_a_process_left_behind_cannot_flip_the_reward(bench: Bench) -> None:
    forge = (
        "while :; do echo 1 > /logs/verifier/reward.txt; "
        "echo 1 > /logs/verifier/reward.json; echo 42 > /app/answer.txt; done"
    )
    grade = "echo 0 > /logs/verifier/reward.txt; sleep 0.5; ls /app/answer.txt && exit 1"
    record = bench.run(
        f"setsid bash -c '{forge}' > /dev/null 2>&1 & sleep 0.3; exit 0",
        task=bench.task(grade=grade),
    )
    assert (record.reward, record.error) == (0.0, None)


@both
@pytest.mark.parametrize("name", ["reward.json", "reward.txt"])
def test_a_reward_written_by_the_agent_does_not_count(bench: Bench, name: str) -> None:
    record = bench.run(f"echo 1 > /logs/verifier/{name}", task=bench.task(grade="true"))
    assert record.reward is None
    assert record.error is not None
    assert (record.error.side, record.error.type) == ("verifier", "RewardFileNotFoundError")


@both
def test_tests_planted_by_the_agent_are_gone(bench: Bench) -> None:
    plant = """
    mkdir -p /tests/locked/inner; echo 1 > /tests/helper.txt; chmod 000 /tests/locked
    mkdir -p /logs/verifier/locked/inner; chmod 000 /logs/verifier/locked
    """
    grade = "ls -A /tests /logs/verifier; echo 0 > /logs/verifier/reward.txt"
    record = bench.run(plant, task=bench.task(grade=grade))
    assert (record.reward, record.error) == (0.0, None)
    listed = read(record, "verifier/test-stdout.txt").split()
    assert "helper.txt" not in listed
    assert "locked" not in listed


def test_a_package_planted_by_the_agent_does_not_run_in_the_tests(bench: Bench) -> None:
    plant = """
    site=$(python3 -m site --user-site); mkdir -p $site
    echo 'import os; open("/logs/verifier/reward.txt", "w").write("1"); os._exit(0)' \\
        > $site/usercustomize.py
    """
    grade = 'python3 -c \'open("/logs/verifier/reward.txt", "w").write("0")\''
    assert bench.run(plant, task=bench.task(grade=grade)).reward == 0.0


def test_a_verifier_out_of_time_is_the_verifiers_fault(bench: Bench) -> None:
    record = bench.run(ANSWER, task=bench.task(grade="sleep 300", verifier_timeout=1))
    assert record.reward is None
    assert record.error is not None
    assert (record.error.side, record.error.type) == ("verifier", "VerifierTimeoutError")


def test_a_failing_install_is_the_harness_fault_and_nothing_is_graded(bench: Bench) -> None:
    record = bench.run(ANSWER, install="echo 'no compiler' >&2; exit 1")
    assert record.reward is None
    assert record.error is not None
    assert record.error.side == "harness"
    assert "install.sh of the harness ended with exit status 1: no compiler" in record.error.message


def test_a_task_that_needs_a_build_says_which_line(bench: Bench) -> None:
    dockerfile = "FROM debian\n\nRUN apt-get update\n"
    record = bench.run(ANSWER, task=bench.task(dockerfile=dockerfile))
    assert record.reward is None
    assert record.error is not None
    assert record.error.side == "task"
    assert "line 3 ('RUN apt-get update')" in record.error.message


@pytest.mark.parametrize("network", ["public", "allowlist"])
def test_a_task_that_needs_the_internet_says_so(bench: Bench, network: str) -> None:
    record = bench.run(ANSWER, task=bench.task(network=network))
    assert record.error is not None
    assert record.error.side == "task"
    assert f"network_mode {network!r}" in record.error.message


@both
def test_one_bad_task_is_one_bad_trial(bench: Bench) -> None:
    records = dict[str, TrialRecord]()
    harness = bench.harness(ANSWER)
    broken = bench.root / "tasks" / "broken"
    broken.mkdir(parents=True)
    tasks = {"a": bench.task("a"), "broken": broken, "b": bench.task("b")}

    async def evaluate() -> None:
        queue = TrialQueue(2)
        done = asyncio.Event()

        def on_done(record: TrialRecord) -> None:
            assert load_record(record.folder) == record
            records[record.name] = record
            if len(records) == len(tasks):
                done.set()

        for name, task in tasks.items():
            queue.submit(bench.spec(task, harness, name), serve, on_done)
        await done.wait()
        await queue.close()

    asyncio.run(evaluate())
    assert {name: record.reward for name, record in records.items()} == {
        "a": 1.0,
        "b": 1.0,
        "broken": None,
    }
    assert (error := records["broken"].error) is not None
    assert error.side == "task"


@both
def test_cancelling_a_group_ends_it_and_spares_the_others(bench: Bench) -> None:
    task = bench.task()
    records = list[TrialRecord]()

    async def evaluate() -> None:
        queue, started, done = TrialQueue(2), asyncio.Event(), asyncio.Event()

        @asynccontextmanager
        async def noticed(listener: socket.socket) -> AsyncIterator[None]:
            async with serve(listener):
                started.set()
                yield

        def on_done(record: TrialRecord) -> None:
            records.append(record)
            done.set()

        sleeper = bench.harness("sleep 300")
        for name in ("running", "also-running", "queued"):
            queue.submit(bench.spec(task, sleeper, name), noticed, on_done, group="slow")
        queue.submit(bench.spec(task, bench.harness(ANSWER), "kept"), serve, on_done, group="fast")
        await started.wait()
        await queue.cancel("slow")
        await done.wait()
        await queue.close()

    asyncio.run(evaluate())
    assert [record.name for record in records] == ["kept"]
    assert load_record(bench.root / "trials" / "running") is None
    assert bench.leftovers() == []


@both
def test_a_trial_cancelled_at_any_moment_leaves_no_sandbox(bench: Bench) -> None:
    task, harness = bench.task(), bench.harness(ANSWER)

    async def evaluate() -> None:
        queue = TrialQueue(1)
        for n in range(10):
            queue.submit(bench.spec(task, harness, f"t{n}"), serve, lambda _: None)
            await asyncio.sleep(n * 0.03)
            await queue.close()
            assert bench.leftovers() == []

    asyncio.run(evaluate())


def test_one_limit_holds_over_all_groups(bench: Bench) -> None:
    task, harness = bench.task(), bench.harness("sleep 0.1")
    running, most = 0, 0

    async def evaluate() -> None:
        queue = TrialQueue(2)
        finished = asyncio.Semaphore(0)

        @asynccontextmanager
        async def counted(listener: socket.socket) -> AsyncIterator[None]:
            nonlocal running, most
            running += 1
            most = max(most, running)
            listener.close()
            yield
            running -= 1

        for n in range(6):
            spec = bench.spec(task, harness, f"t{n}")
            queue.submit(spec, counted, lambda _: finished.release(), group=f"g{n % 3}")
        for _ in range(6):
            await finished.acquire()

    asyncio.run(evaluate())
    assert most == 2


def test_a_record_survives_the_disk_and_is_never_overwritten(bench: Bench) -> None:
    spec = bench.spec(bench.task(), bench.harness("exit 1"))
    (spec.folder / "agent").mkdir(parents=True)
    (spec.folder / "agent" / "half.txt").write_text("left by a run that was killed")
    record = asyncio.run(run_trial(spec, serve))
    assert load_record(spec.folder) == record
    assert TrialRecord.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert "agent/half.txt" not in {file.name for file in list_trial_files(spec.folder)}
    with pytest.raises(FileExistsError):
        asyncio.run(run_trial(spec, serve))


def test_links_that_a_harness_plants_lead_nowhere(bench: Bench) -> None:
    record = bench.run("ln -s /etc/passwd /logs/agent/leak; ln -s /etc /logs/agent/etc; echo hi")
    (record.folder / "agent" / "host").symlink_to("/etc/passwd")
    (record.folder / "agent" / "folder").symlink_to("/etc")
    names = {file.name for file in list_trial_files(record.folder)}
    assert "agent/stdout.txt" in names
    assert not {name for name in names if "leak" in name or "etc" in name or "host" in name}
    for name in (
        "agent/host",
        "agent/folder/passwd",
        "agent/../../x",
        "/etc/passwd",
        "config.json",
    ):
        with pytest.raises(BadCall, match="no file"):
            read_trial_file(record.folder, name)


def test_a_file_is_read_in_pieces_by_character(tmp_path: Path) -> None:
    text = "añ\r\n" * 1000
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "log.txt").write_bytes(text.encode() + b"\xff")
    pieces, offset, more = list[str](), 0, True
    while more:
        piece = read_trial_file(tmp_path, "agent/log.txt", offset, limit=333)
        pieces.append(piece.text)
        offset, more = offset + len(piece.text), piece.more
    assert "".join(pieces) == text + "\ufffd"


def test_a_trial_is_silent_and_imports_no_litellm(bench: Bench) -> None:
    spec = bench.spec(bench.task(), bench.harness(ANSWER))
    script = f"""
        import asyncio, logging, os, sys
        from contextlib import asynccontextmanager
        from pathlib import Path, PosixPath
        from rsigym.services.trials import TrialSpec, run_trial
        logging.basicConfig(level=logging.DEBUG)

        @asynccontextmanager
        async def serve(listener):
            listener.close()
            yield

        record = asyncio.run(run_trial({spec!r}, serve))
        assert record.reward == 1, record
        assert "litellm" not in sys.modules
        assert os.environ["HARBOR_TELEMETRY"] == "off"
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "harbor" not in done.stdout + done.stderr
