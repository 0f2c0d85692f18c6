"""The record of a trial: its reward, what went wrong and on whose side, and how long it took.

A record is one JSON file in the trial's folder, which is there whole or not at all, so that a
trial without one did not finish. What Harbor answers becomes a record here.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import TypeAdapter

from rsigym.platform.errors import Failure, Side
from rsigym.services.tampering import load_tampering

if TYPE_CHECKING:
    from harbor.models.trial.result import ExceptionInfo, TimingInfo, TrialResult

__all__ = ["RECORD", "TrialError", "TrialRecord", "load_record", "store_record"]

RECORD = "record.json"
"""The file in the folder of a trial that finished."""

_MAX_MESSAGE = 2000


@dataclass(frozen=True)
class TrialError:
    """Why a trial did not run to its end.

    Attributes:
        side: Who has to do something about it.
        type: The name of the exception.
        message: What it said.
    """

    side: Side
    type: str
    message: str


@dataclass(frozen=True)
class TrialRecord:
    """How a trial ended.

    Attributes:
        name, task, attempt: As in its spec; `task` is the name of the task's folder.
        reward: What the verifier wrote, also for a harness that failed; None if it wrote nothing.
        rewards: Every number that the verifier wrote, by name.
        error: What went wrong, also beside a reward.
        started, finished: UTC, ISO 8601.
        seconds: Spent by phase, of `environment`, `setup`, `agent` and `verifier`; phases that
            were not reached are missing.
        folder: Where the trial left its files.
        tampering: What the agent left that could have bent its own grading, a line each, which was
            put away before the tests ran. Not all of it need be meant ill: a server that an agent
            left running is among it.
    """

    name: str
    task: str
    attempt: int
    reward: float | None
    rewards: dict[str, float]
    error: TrialError | None
    started: str
    finished: str
    seconds: dict[str, float]
    folder: Path
    tampering: tuple[str, ...] = ()

    @classmethod
    def begun(cls, name: str, task: str, attempt: int, folder: Path) -> Self:
        """The record of a trial that begins now, which `with_result` or `with_error` ends."""
        return cls(
            name=name,
            task=task,
            attempt=attempt,
            reward=None,
            rewards={},
            error=None,
            started=_iso(datetime.now(UTC)),
            finished="",
            seconds={},
            folder=folder,
        )

    def with_result(self, result: "TrialResult") -> Self:
        """The trial ended as Harbor says."""
        verified = result.verifier_result and result.verifier_result.rewards
        rewards = {name: float(value) for name, value in (verified or {}).items()}
        only = next(iter(rewards.values())) if len(rewards) == 1 else None
        phases = {
            "environment": result.environment_setup,
            "setup": result.agent_setup,
            "agent": result.agent_execution,
            "verifier": result.verifier,
        }
        return replace(
            self,
            reward=rewards.get("reward", only),
            rewards=rewards,
            error=_error(result),
            started=_iso(result.started_at),
            finished=_iso(result.finished_at),
            seconds={name: _seconds(timing) for name, timing in phases.items() if timing},
            tampering=load_tampering(self.folder),
        )

    def with_error(self, error: Exception, side: Side) -> Self:
        """The trial ended now, without a result; `side` is at fault unless `error` names one."""
        if isinstance(error, Failure):
            side = error.side
        return replace(
            self,
            error=TrialError(side, type(error).__name__, str(error)[:_MAX_MESSAGE]),
            finished=_iso(datetime.now(UTC)),
            tampering=load_tampering(self.folder),
        )

    def to_json(self) -> dict[str, Any]:
        return TypeAdapter(TrialRecord).dump_python(self, mode="json")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TrialRecord":
        return TypeAdapter(TrialRecord).validate_python(data)


_SIDES: dict[str, Side] = {
    "AgentSetupTimeoutError": "harness",
    "AgentTimeoutError": "harness",
    "BuildFailure": "task",
    "NonZeroAgentExitCodeError": "harness",
    "EnvironmentStartTimeoutError": "sandbox",
    "HealthcheckError": "sandbox",
}


def _error(result: "TrialResult") -> TrialError | None:
    raised = next(iter(result.recorded_exceptions()), None)
    if raised is None:
        return None
    side = _SIDES.get(raised.exception_type) or _side_by_phase(result, raised)
    return TrialError(side, raised.exception_type, raised.exception_message[:_MAX_MESSAGE])


def _side_by_phase(result: "TrialResult", raised: "ExceptionInfo") -> Side:
    verifier = result.verifier and result.verifier.started_at
    if verifier and raised.occurred_at >= verifier:
        return "verifier"
    return "sandbox" if result.agent_setup is None else "platform"


def _iso(moment: datetime | None) -> str:
    return moment.isoformat(timespec="milliseconds") if moment else ""


def _seconds(timing: "TimingInfo") -> float:
    if timing.started_at is None or timing.finished_at is None:
        return 0.0
    return round((timing.finished_at - timing.started_at).total_seconds(), 3)


def store_record(record: TrialRecord) -> None:
    """Write the record to its folder so that it is there whole or not at all."""
    record.folder.mkdir(parents=True, exist_ok=True)
    written = record.folder / f".{RECORD}"
    with written.open("w", encoding="utf-8") as file:
        json.dump(record.to_json(), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    written.replace(record.folder / RECORD)


def load_record(folder: Path) -> TrialRecord | None:
    """The record of a finished trial, wherever its folder is now; None if it did not finish."""
    path = folder / RECORD
    if not path.exists():
        return None
    return replace(
        TrialRecord.from_json(json.loads(path.read_text(encoding="utf-8"))), folder=folder
    )
