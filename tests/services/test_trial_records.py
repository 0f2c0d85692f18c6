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
from rsigym.services.trial_errors import TrialError
from rsigym.services.trial_records import RECORD, TrialRecord, load_record, store_record

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


def test_a_record_has_every_number_that_was_written_and_the_one_that_counts() -> None:
    record = BEGUN.with_result(result(rewards={"reward": 0.5, "style": 7}))
    assert (record.reward, record.rewards, record.error) == (0.5, {"reward": 0.5, "style": 7}, None)


@pytest.mark.parametrize("rewards", [{}, {"tests": 1, "style": 1}, {"reward": 2}, {"a": 10**400}])
def test_numbers_that_are_no_reward_are_the_verifiers_error(
    rewards: dict[str, float | int],
) -> None:
    record = BEGUN.with_result(result(rewards=rewards))
    assert record.reward is None
    assert record.error is not None
    assert (record.error.side, record.error.type) == ("verifier", "UnreadableReward")
    assert record.rewards.keys() == rewards.keys()


def test_no_numbers_are_nothing_to_be_read() -> None:
    assert BEGUN.with_result(result(rewards=None)).rewards == {}


def test_a_reward_counts_although_the_harness_failed() -> None:
    failed = BEGUN.with_result(result(rewards={"reward": 1}, raised="AgentTimeoutError"))
    assert failed.reward == 1.0
    assert failed.error is not None
    unreadable = BEGUN.with_result(result(rewards={}, raised="AgentTimeoutError"))
    assert unreadable.error == failed.error, "the first error stands"


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
        (3, "ServiceFailure", "sandbox"),
        (4, "RewardFileNotFoundError", "verifier"),
        (4, "RuntimeError", "verifier"),
    ],
)
def test_an_error_is_laid_at_the_side_that_was_at_work(phases: int, raised: str, side: str) -> None:
    record = BEGUN.with_result(result(phases, raised=raised))
    assert record.error is not None
    assert (record.error.side, record.error.type) == (side, raised)
    assert len(record.seconds) == phases


@pytest.mark.parametrize(
    ("phases", "raised", "lost"),
    [
        (1, "RuntimeError", True),
        (1, "EnvironmentStartTimeoutError", True),
        (2, "RuntimeError", False),
        (2, "AgentSetupTimeoutError", False),
        (3, "ServiceFailure", False),
        (3, "AgentTimeoutError", False),
        (4, "RewardFileNotFoundError", False),
    ],
)
def test_what_a_harness_may_have_done_is_not_the_platforms_loss(
    phases: int, raised: str, lost: bool
) -> None:
    assert BEGUN.with_result(result(phases, raised=raised)).lost is lost


def test_a_model_that_is_gone_is_the_platforms_loss_whatever_was_written() -> None:
    graded = BEGUN.with_result(result(rewards={"reward": 1}))
    gone = graded.with_error(ServiceFailure("it is gone", side="provider"), "platform")
    assert (gone.reward, gone.rewards, gone.lost) == (None, {"reward": 1.0}, True)
    assert gone.seconds == graded.seconds
    assert not graded.lost


def test_a_platform_that_fails_before_the_sandbox_has_lost_the_trial() -> None:
    assert BEGUN.with_error(ValueError("no such class"), "platform").lost
    assert not BEGUN.with_error(ValueError("no task.toml"), "task").lost
    ran = BEGUN.with_phases(result(4))
    assert not ran.with_error(ValueError("it cannot be written down"), "platform").lost


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
    tries=st.integers(1, 3),
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
