"""The record of a trial: what is made of Harbor's result, and what the disk gives back."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest
from harbor.models.task.id import LocalTaskId
from harbor.models.trial.config import TaskConfig, TrialConfig
from harbor.models.trial.result import AgentInfo, ExceptionInfo, TimingInfo, TrialResult
from harbor.models.verifier.result import VerifierResult
from hypothesis import given, settings
from hypothesis import strategies as st

from rsigym.platform.errors import ServiceFailure, Side
from rsigym.services.trial_records import (
    RECORD,
    TrialError,
    TrialRecord,
    load_record,
    store_record,
)

BEGUN = TrialRecord.begun("task-1", "task", 0, Path("trial"))
T0 = datetime(2026, 1, 1, tzinfo=UTC)
PHASES = ("environment_setup", "agent_setup", "agent_execution", "verifier")


def result(
    phases: int = 4,
    *,
    rewards: dict[str, float | int] | None = None,
    raised: str | None = None,
) -> TrialResult:
    """Harbor's result of a trial that began `phases` phases, a second each, and then `raised`."""
    ended = T0 + timedelta(seconds=phases)
    error = ExceptionInfo(
        exception_type=raised or "",
        exception_message="it went wrong",
        exception_traceback="",
        occurred_at=ended - timedelta(seconds=0.5),
    )
    result = TrialResult(
        task_name="task",
        trial_name="task-1",
        trial_uri="file:///trial",
        task_id=LocalTaskId(path=Path("task")),
        task_checksum="",
        config=TrialConfig(task=TaskConfig(path=Path("task"))),
        agent_info=AgentInfo(name="harness", version="1"),
        verifier_result=VerifierResult(rewards=rewards),
        exception_info=error if raised else None,
        started_at=T0,
        finished_at=ended,
    )
    for n, phase in enumerate(PHASES[:phases]):
        begin = T0 + timedelta(seconds=n)
        timing = TimingInfo(started_at=begin, finished_at=begin + timedelta(seconds=1))
        setattr(result, phase, timing)
    return result


def test_a_result_becomes_the_record_of_the_trial_that_began() -> None:
    record = BEGUN.with_result(result(rewards={"reward": 1}))
    assert record == TrialRecord(
        name="task-1",
        task="task",
        attempt=0,
        reward=1.0,
        rewards={"reward": 1.0},
        error=None,
        started="2026-01-01T00:00:00.000+00:00",
        finished="2026-01-01T00:00:04.000+00:00",
        seconds={"environment": 1.0, "setup": 1.0, "agent": 1.0, "verifier": 1.0},
        folder=Path("trial"),
    )


@pytest.mark.parametrize(
    ("rewards", "reward"),
    [
        ({"reward": 0.5, "style": 1}, 0.5),
        ({"tests": 0.25}, 0.25),
        ({"tests": 1, "style": 1}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_reward_is_the_one_of_that_name_or_the_only_one(
    rewards: dict[str, float | int] | None, reward: float | None
) -> None:
    record = BEGUN.with_result(result(rewards=rewards))
    assert (record.reward, record.rewards) == (reward, rewards or {})


@pytest.mark.parametrize(
    ("phases", "raised", "side"),
    [
        (1, "RuntimeError", "sandbox"),
        (1, "EnvironmentStartTimeoutError", "sandbox"),
        (2, "AgentSetupTimeoutError", "harness"),
        (2, "RuntimeError", "platform"),
        (3, "AgentTimeoutError", "harness"),
        (3, "NonZeroAgentExitCodeError", "harness"),
        (3, "RuntimeError", "platform"),
        (4, "RewardFileNotFoundError", "verifier"),
        (4, "RuntimeError", "verifier"),
    ],
)
def test_an_error_is_laid_at_the_side_that_was_at_work(phases: int, raised: str, side: str) -> None:
    record = BEGUN.with_result(result(phases, raised=raised))
    assert record.error is not None
    assert (record.error.side, record.error.type) == (side, raised)
    assert len(record.seconds) == phases


def test_an_error_without_a_result_says_its_side_if_it_knows() -> None:
    known = BEGUN.with_error(ServiceFailure("the tests are gone", side="verifier"), "platform")
    assert known.error == TrialError("verifier", "ServiceFailure", "the tests are gone")
    other = BEGUN.with_error(ValueError("x" * 10_000), "task")
    assert other.error == TrialError("task", "ValueError", "x" * 2000)
    assert other.started <= other.finished


_numbers = st.floats(allow_nan=False)
_records = st.builds(
    TrialRecord,
    name=st.text(),
    task=st.text(),
    attempt=st.integers(0, 99),
    reward=st.none() | _numbers,
    rewards=st.dictionaries(st.text(), _numbers, max_size=3),
    error=st.none() | st.builds(TrialError, st.sampled_from(get_args(Side.__value__))),
    started=st.text(),
    finished=st.text(),
    seconds=st.dictionaries(st.text(), _numbers, max_size=3),
    folder=st.just(Path("elsewhere")),
    tampering=st.lists(st.text(), max_size=3).map(tuple),
)


@settings(deadline=None, max_examples=50)
@given(_records)
def test_a_record_survives_the_disk(record: TrialRecord) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place) / "trials" / "trial"
        record = replace(record, folder=folder)
        store_record(record)
        assert load_record(folder) == record
        assert [path.name for path in folder.iterdir()] == [RECORD]
        moved = folder.rename(Path(place) / "moved")
        assert load_record(moved) == replace(record, folder=moved)


def test_a_record_that_was_not_written_to_its_end_is_none(tmp_path: Path) -> None:
    (tmp_path / f".{RECORD}").write_text('{"name": "tri')
    assert load_record(tmp_path) is None
    assert load_record(tmp_path / "never-made") is None
    record = replace(BEGUN, folder=tmp_path)
    store_record(record)
    assert load_record(tmp_path) == record
