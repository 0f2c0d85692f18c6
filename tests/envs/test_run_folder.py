"""Run folders: locked while a run goes on, and taken up only where the experiment is the same."""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import rsigym
from rsigym.envs.run_folder import RESULT, RunFolder
from rsigym.platform.errors import OperatorError
from rsigym.platform.journal import JOURNAL
from rsigym.services.harness import Harness
from rsigym.services.jobs import Jobs
from rsigym.wrappers import DataTrack
from tests.envs.conftest import Open, folder_of, inner


def interrupted(env: Any) -> Path:
    """The folder of a run whose process stopped without a word."""
    folder = folder_of(inner(env).episode)
    env.close()
    (folder / RESULT).unlink()
    return folder


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path, "Integers")
    folder.fix({"a": 1})
    with pytest.raises(OperatorError, match="another process"):
        RunFolder.existing(folder.path)
    folder.close()
    folder.close()
    again = RunFolder.existing(folder.path)
    assert again.facts == {"a": 1}
    again.close()


@pytest.mark.parametrize(
    ("left", "says"), [([], "no run folder"), (["experiment.json", RESULT], "has ended")]
)
def test_what_cannot_go_on_is_said(tmp_path: Path, left: list[str], says: str) -> None:
    for name in left:
        (tmp_path / name).write_text("{}")
    with pytest.raises(OperatorError, match=says):
        rsigym.resume(tmp_path)


def test_a_run_that_ends_while_it_is_taken_up_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.new(tmp_path, "Integers")
    folder.fix({"a": 1})
    folder.close()
    lock = fcntl.flock

    def end_and_lock(descriptor: int, how: int) -> None:
        """As if the process that had the folder ended the run just now."""
        (folder.path / RESULT).write_text("{}")
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", end_and_lock)
    with pytest.raises(OperatorError, match="has ended"):
        RunFolder.existing(folder.path)
    monkeypatch.undo()
    RunFolder(folder.path).close()


def test_damaged_facts_are_named_and_the_folder_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text('{"a": ')
    with pytest.raises(OperatorError, match=r"experiment\.json is damaged"):
        rsigym.resume(tmp_path)
    RunFolder(tmp_path).close()


def test_a_run_of_another_version_is_told_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text('{"budget_usd": 5.0}')
    with pytest.raises(OperatorError, match=r"another version .* has no backend, benchmarks"):
        rsigym.resume(tmp_path)


def test_only_the_time_in_which_a_process_worked_counts(tmp_path: Path) -> None:
    """Each process works for 100 s and then nobody for an hour or more."""
    folder = RunFolder.new(tmp_path, "Integers")
    folder.fix({"a": 1})
    folder.close()
    facts, journal = folder.path / "experiment.json", folder.path / JOURNAL
    os.utime(facts, (1000, 1000))
    journal.touch()
    os.utime(journal, (1100, 1100))
    for process in range(1, 3):
        again = RunFolder.existing(folder.path)
        assert again.seconds == pytest.approx(100 * process, abs=30)
        again.fix({"a": 1})
        assert again.seconds == pytest.approx(100 * process, abs=30)
        again.close()
        os.utime(journal, (time.time() + 100, time.time() + 100))


def test_a_run_narrowed_on_its_way_stays_as_narrow(open_env: Open) -> None:
    env = open_env("RSIGym/Integers-v0")
    env.reset(seed=0)
    narrow = DataTrack(env)
    permissions = inner(env).permissions
    resumed = rsigym.resume(interrupted(narrow))
    assert resumed.permissions == permissions
    _, info = resumed.reset(seed=1)
    assert "run.submit" in info["legal_ops"]
    observation, *_ = resumed.step(
        {"op": "training.submit", "args": {"data": [], "config": {"num_epochs": 2}}}
    )
    assert observation["evidence"]["error"]["rule"] == "training.lock.num_epochs"
    resumed.close()


def test_a_run_does_not_go_on_under_other_prices(open_env: Open) -> None:
    env = open_env()
    env.reset(seed=0)
    folder = interrupted(env)
    facts = json.loads((folder / "experiment.json").read_text())
    facts["prices"]["sha256"] = "of other prices"
    (folder / "experiment.json").write_text(json.dumps(facts))
    resumed = rsigym.resume(folder)
    for _ in range(2):  # not even when asked again: it would be a new run
        with pytest.raises(OperatorError, match="prices changed since it began"):
            resumed.reset()
    resumed.close()


def test_a_folder_without_its_harness_is_no_run_yet(
    open_env: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(harness: Harness, folder: Path) -> None:
        raise KeyboardInterrupt

    env = open_env(run_dir=str(tmp_path))
    monkeypatch.setattr(Harness, "unpack", killed)
    with pytest.raises(KeyboardInterrupt):
        env.reset(seed=0)
    [folder] = tmp_path.iterdir()
    with pytest.raises(OperatorError, match="no run folder"):
        rsigym.resume(folder)


def test_of_many_jobs_the_newest_are_told_at_the_start(
    open_env: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old:
        def __init__(self, number: int):
            self.number = number

        def summary(self) -> dict[str, Any]:
            return {"handle": f"training-{self.number}", "loss": "x" * 500}

    env = open_env()
    env.reset(seed=0)
    resumed = rsigym.resume(interrupted(env))
    monkeypatch.setattr(Jobs, "all", lambda jobs: [Old(number) for number in range(400)])
    observation, _ = resumed.reset()
    assert observation in resumed.observation_space
    assert observation["evidence"]["initial_system"]["harness"] == "harness"
    assert observation["evidence"]["resumed"][-1]["handle"] == "training-399"
    resumed.close()


def test_the_reset_after_a_resumed_run_opens_a_new_one(open_env: Open) -> None:
    env = open_env()
    env.reset(seed=0)
    folder = interrupted(env)
    resumed = rsigym.resume(folder)
    opened: list[Path] = []
    for _ in range(2):
        resumed.reset()
        opened.append(folder_of(resumed.episode))
    assert opened[0] == folder != opened[1]
    resumed.close()
