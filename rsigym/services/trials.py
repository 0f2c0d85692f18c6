"""Trials: one attempt at one task by one harness with one model, in one sandbox.

`run_trial` runs one through Harbor and always answers a record, whatever the task, the harness or
the sandbox did. `TrialQueue` runs many under one limit; each record is on disk when its trial
ends. `list_trial_files` and `read_trial_file` show what a trial left, without following a link
that a harness may have planted.
"""

import asyncio
import json
import os
import shutil
import socket
import stat
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import TypeAdapter

from rsigym.platform.errors import BadCall, Failure, Side

if TYPE_CHECKING:
    from harbor.models.trial.config import TrialConfig
    from harbor.models.trial.result import ExceptionInfo, TimingInfo, TrialResult
    from harbor.trial.trial import Trial

    from rsigym.services.archive_agent import ArchiveAgent

__all__ = [
    "Serve",
    "TrialError",
    "TrialFile",
    "TrialQueue",
    "TrialRecord",
    "TrialSpec",
    "TrialText",
    "list_trial_files",
    "load_record",
    "read_trial_file",
    "run_trial",
]

type Serve = Callable[[socket.socket], AbstractAsyncContextManager[None]]
"""Serves the trial's inference endpoint on a listening socket, which it takes over, for as long as
the context lasts."""

RECORD = "record.json"

_READABLE = ("agent", "verifier", "artifacts")
"""What a trial's folder holds for the research agent; the rest names paths of this machine."""

_MAX_FILES = 1000
_MAX_MESSAGE = 2000


@dataclass(frozen=True)
class TrialSpec:
    """One trial to run.

    Attributes:
        name: Unique below `trials_dir`; the name of the trial's folder.
        task: A Harbor task folder.
        attempt: Which attempt at the task this is, from 0.
        harness: A harness archive, `.tar.gz`.
        model: What the harness asks the endpoint for.
        timeout_multiplier: Stretches or shrinks every timeout of the task.
        environment: The Harbor environment, `module:Class`.
        environment_kwargs: Its own options, JSON-able.
        trials_dir: Where the trial's folder is made.
    """

    name: str
    task: Path
    attempt: int
    harness: Path
    model: str
    timeout_multiplier: float
    environment: str
    environment_kwargs: Mapping[str, Any]
    trials_dir: Path

    @property
    def folder(self) -> Path:
        return self.trials_dir / self.name


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

    def to_json(self) -> dict[str, Any]:
        return TypeAdapter(TrialRecord).dump_python(self, mode="json")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TrialRecord":
        return TypeAdapter(TrialRecord).validate_python(data)


async def run_trial(spec: TrialSpec, serve: Serve) -> TrialRecord:
    """Runs one trial and stores its record. A trial of the same name that did not finish is redone.

    Raises:
        FileExistsError: A trial of this name has finished.
        asyncio.CancelledError: It was cancelled; its sandbox is gone and it leaves no record.
    """
    if (spec.folder / RECORD).exists():
        raise FileExistsError(f"trial {spec.name} has a record already, in {spec.folder}")
    await asyncio.to_thread(shutil.rmtree, spec.folder, ignore_errors=True)
    record = await _attempt(spec, serve)
    await asyncio.to_thread(_store, record)
    return record


async def _attempt(spec: TrialSpec, serve: Serve) -> TrialRecord:
    started = _now()
    side: Side = "platform"
    try:
        _quiet_harbor()
        config = _config(spec)
        async with AsyncExitStack() as endpoint:
            # All else is ours and known to work: what Harbor refuses now is the task.
            side = "task"
            trial = await _create(config)
            side = "platform"
            _offer_endpoint(trial, serve, endpoint)
            return _record(spec, await _run(trial))
    except Exception as error:  # noqa: BLE001 -- one bad trial must not end its siblings
        return TrialRecord(
            name=spec.name,
            task=spec.task.name,
            attempt=spec.attempt,
            reward=None,
            rewards={},
            error=TrialError(
                error.side if isinstance(error, Failure) else side,
                type(error).__name__,
                str(error)[:_MAX_MESSAGE],
            ),
            started=started,
            finished=_now(),
            seconds={},
            folder=spec.folder,
        )


async def _create(config: "TrialConfig") -> "Trial":
    from harbor.trial.trial import Trial

    return await Trial.create(config)


async def _run(trial: "Trial") -> "TrialResult":
    task = asyncio.current_task()
    try:
        return await trial.run()
    finally:
        # A cancellation that comes while Harbor stops the environment does not wait for the end.
        if task and task.cancelling():
            await trial.agent_environment.stop(delete=True)


def _quiet_harbor() -> None:
    """No telemetry, and nothing on the user's terminal: a trial has a log file of its own."""
    import logging

    os.environ["HARBOR_TELEMETRY"] = "off"
    logger = logging.getLogger("harbor")
    if logger.propagate:
        logger.propagate = False
        logger.addHandler(logging.NullHandler())


def _config(spec: TrialSpec) -> "TrialConfig":
    from harbor.models.trial.config import (
        AgentConfig,
        EnvironmentConfig,
        TaskConfig,
        TrialConfig,
        VerifierConfig,
    )
    from harbor.utils.import_path import import_symbol

    # Imported now, so that a wrong setting is not taken for a bad task.
    import_symbol(spec.environment)
    return TrialConfig(
        task=TaskConfig(path=spec.task),
        trial_name=spec.name,
        trials_dir=spec.trials_dir,
        timeout_multiplier=spec.timeout_multiplier,
        agent=AgentConfig(
            import_path="rsigym.services.archive_agent:ArchiveAgent",
            model_name=spec.model,
            # Parsing a model's name imports litellm: seconds and 200 MB, for nothing.
            skip_model_parsing=True,
            kwargs={"archive": str(spec.harness)},
        ),
        environment=EnvironmentConfig(
            import_path=spec.environment, kwargs=dict(spec.environment_kwargs)
        ),
        verifier=VerifierConfig(import_path="rsigym.services.clean_verifier:CleanVerifier"),
    )


class _HostsEndpoint(Protocol):
    on_endpoint: Callable[[socket.socket, str], Awaitable[None]] | None


def _offer_endpoint(trial: "Trial", serve: Serve, endpoint: AsyncExitStack) -> None:
    """Has the environment, once it has started, hand over the socket that only it can reach."""
    agent = cast("ArchiveAgent", trial.agent)

    async def on_endpoint(listener: socket.socket, address: str) -> None:
        await endpoint.enter_async_context(serve(listener))
        agent.api_base = f"{address}/v1"

    cast(_HostsEndpoint, trial.agent_environment).on_endpoint = on_endpoint


def _record(spec: TrialSpec, result: "TrialResult") -> TrialRecord:
    verified = result.verifier_result and result.verifier_result.rewards
    rewards = {name: float(value) for name, value in (verified or {}).items()}
    only = next(iter(rewards.values())) if len(rewards) == 1 else None
    phases = {
        "environment": result.environment_setup,
        "setup": result.agent_setup,
        "agent": result.agent_execution,
        "verifier": result.verifier,
    }
    return TrialRecord(
        name=spec.name,
        task=spec.task.name,
        attempt=spec.attempt,
        reward=rewards.get("reward", only),
        rewards=rewards,
        error=_error(result),
        started=_iso(result.started_at),
        finished=_iso(result.finished_at),
        seconds={name: _seconds(timing) for name, timing in phases.items() if timing},
        folder=spec.folder,
    )


_SIDES: dict[str, Side] = {
    "AgentSetupTimeoutError": "harness",
    "AgentTimeoutError": "harness",
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


def _now() -> str:
    return _iso(datetime.now(UTC))


def _iso(moment: datetime | None) -> str:
    return moment.isoformat(timespec="milliseconds") if moment else ""


def _seconds(timing: "TimingInfo") -> float:
    if timing.started_at is None or timing.finished_at is None:
        return 0.0
    return round((timing.finished_at - timing.started_at).total_seconds(), 3)


def _store(record: TrialRecord) -> None:
    """Writes the record so that it is there whole or not at all."""
    record.folder.mkdir(parents=True, exist_ok=True)
    written = record.folder / f".{RECORD}"
    with written.open("w") as file:
        json.dump(record.to_json(), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    written.replace(record.folder / RECORD)


def load_record(folder: Path) -> TrialRecord | None:
    """The record of a finished trial; None if the trial did not finish."""
    path = folder / RECORD
    if not path.exists():
        return None
    return replace(TrialRecord.from_json(json.loads(path.read_text())), folder=folder)


class TrialQueue:
    """Runs trials, of any number of evaluations, under one limit.

    It belongs to the event loop it is used on. That loop must be of a thread that lives as long
    as its sandboxes: they end with the thread that started them.
    """

    def __init__(self, limit: int | None = None):
        """
        Args:
            limit: Trials at a time; by default one for each core.
        """
        self._slots = asyncio.Semaphore(limit or os.cpu_count() or 1)
        self._groups: dict[str, set[asyncio.Task[None]]] = defaultdict(set)

    def submit(
        self,
        spec: TrialSpec,
        serve: Serve,
        on_done: Callable[[TrialRecord], None],
        *,
        group: str = "",
    ) -> None:
        """Queues a trial; `on_done` gets its record, which is on disk by then.

        A cancelled trial is not reported.
        """
        task = asyncio.create_task(self._run(spec, serve, on_done), name=f"trial {spec.name}")
        self._groups[group].add(task)
        task.add_done_callback(self._groups[group].discard)

    async def cancel(self, group: str) -> None:
        """Cancels what is queued or running of a group; answers once its sandboxes are gone."""
        await _cancel(self._groups.pop(group, set()))

    async def close(self) -> None:
        """Cancels every trial; answers once every sandbox is gone."""
        groups, self._groups = self._groups, defaultdict(set)
        await _cancel(set().union(*groups.values()))

    async def _run(
        self, spec: TrialSpec, serve: Serve, on_done: Callable[[TrialRecord], None]
    ) -> None:
        async with self._slots:
            record = await run_trial(spec, serve)
        on_done(record)


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class TrialFile:
    """A file that a trial left: its name in the trial's folder, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class TrialText:
    """A piece of a file, and whether there is more after it."""

    text: str
    more: bool


def list_trial_files(folder: Path) -> list[TrialFile]:
    """What the agent, the verifier and the task left, by name; the first 1,000 files."""
    return list(islice(_files(folder), _MAX_FILES))


def _files(folder: Path) -> Iterator[TrialFile]:
    for top in _READABLE:
        for parent, folders, names in os.walk(folder / top):
            folders.sort()
            for name in sorted(names):
                path = Path(parent, name)
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield TrialFile(path.relative_to(folder).as_posix(), status.st_size)


def read_trial_file(folder: Path, name: str, offset: int = 0, limit: int = 16_384) -> TrialText:
    """Reads at most `limit` characters of a file, from a character offset.

    Raises:
        BadCall: There is no such file among those listed.
    """
    names = [file.name for file in list_trial_files(folder)]
    if name not in names:
        raise BadCall(f"the trial has no file {name!r}", files=[*names[:50]])
    with (folder / name).open(encoding="utf-8", errors="replace", newline="") as file:
        while offset > 0 and (skipped := file.read(min(offset, 2**20))):
            offset -= len(skipped)
        text = file.read(limit)
        return TrialText(text, bool(file.read(1)))
