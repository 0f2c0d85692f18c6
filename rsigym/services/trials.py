"""Trials: one attempt at one task by one harness with one model, in one sandbox.

`run_trial` runs one through Harbor and always answers a record, whatever the task, the harness or
the sandbox did. How Harbor is told to do so is fixed here.
"""

import asyncio
import logging
import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from rsigym.platform.errors import Side
from rsigym.services.trial_records import TrialRecord, load_record, store_record

if TYPE_CHECKING:
    from harbor.models.trial.config import TrialConfig
    from harbor.models.trial.result import TrialResult
    from harbor.trial.trial import Trial

    from rsigym.services.archive_agent import ArchiveAgent

__all__ = ["Serve", "TrialSpec", "run_trial"]

type Serve = Callable[[socket.socket], AbstractAsyncContextManager[None]]
"""Serves the trial's inference endpoint on a listening socket, which it takes over, for as long as
the context lasts. It ends with a `ServiceFailure` where the model was lost to the trial."""


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


async def run_trial(spec: TrialSpec, serve: Serve) -> TrialRecord:
    """Run one trial and store its record.

    A trial of the same name that did not finish, or that the platform lost, is redone.

    It must run in a thread that lives as long as the sandbox: that ends with the thread that
    started it.

    Raises:
        FileExistsError: A trial of this name has finished, and not been lost.
        asyncio.CancelledError: It was cancelled; its sandbox is gone and it leaves no record. A
            cancellation that comes once the sandbox is closing is too late: the record is answered.
    """
    earlier = load_record(spec.folder)
    if earlier is not None and not earlier.lost:
        raise FileExistsError(f"trial {spec.name} has a record already, in {spec.folder}")
    await asyncio.to_thread(shutil.rmtree, spec.folder, ignore_errors=True)
    record = await _attempt(spec, serve)
    if earlier is not None:
        record = replace(record, tries=earlier.tries + 1)
    # Not in a thread: a cancellation would part what is on disk from what is answered.
    store_record(record)
    return record


async def _attempt(spec: TrialSpec, serve: Serve) -> TrialRecord:
    record = TrialRecord.begun(spec.name, spec.task.name, spec.attempt, spec.folder)
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
            try:
                record = record.with_result(await _run(trial))
            except Exception:
                record = record.with_phases(trial.result)
                raise
    except Exception as error:  # noqa: BLE001 -- one bad trial must not end its siblings
        return record.with_error(error, side)
    return record


async def _create(config: "TrialConfig") -> "Trial":
    from harbor.trial.trial import Trial

    return await Trial.create(config)


async def _run(trial: "Trial") -> "TrialResult":
    task = asyncio.current_task()
    try:
        return await trial.run()
    finally:
        # Harbor swallows a cancellation while it stops the environment, and awaits no end of it.
        if task and task.cancelling():
            await trial.agent_environment.stop(delete=True)


def _quiet_harbor() -> None:
    """No telemetry, and nothing on the user's terminal: a trial has a log file of its own."""
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
