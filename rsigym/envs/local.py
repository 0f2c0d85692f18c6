"""The local backend: where the services meet what does their work on this machine."""

import asyncio
import hashlib
import math
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from rsigym import benchmarks
from rsigym.envs.endpoints import TrialEndpoints
from rsigym.envs.episode import Episode
from rsigym.envs.experiment import Experiment, describe
from rsigym.envs.official import Official
from rsigym.envs.scoreboard import Scoreboard
from rsigym.envs.submission import RunService
from rsigym.local.models import model_folder
from rsigym.local.sandbox import Isolation, choose_isolation
from rsigym.local.tinker.shared import shared_tinker_server
from rsigym.platform.errors import BadCall, OperatorError
from rsigym.platform.home import home
from rsigym.platform.journal import JOURNAL, Journal
from rsigym.platform.ledger import Ledger
from rsigym.platform.money import to_nano
from rsigym.platform.open_ledger import open_ledger
from rsigym.platform.permissions import Permissions
from rsigym.platform.prices import PriceBook, local_prices
from rsigym.platform.records import write_json
from rsigym.platform.rollout_models import rollout_prices
from rsigym.platform.run import Run
from rsigym.platform.service import Evidence
from rsigym.services.evaluation import EvaluationService
from rsigym.services.evaluation_job import Trials
from rsigym.services.harness import Harness, pack
from rsigym.services.inference import InferenceService
from rsigym.services.jobs import Jobs
from rsigym.services.loop import BackgroundLoop
from rsigym.services.rollout import RolloutService
from rsigym.services.tinker_client import TinkerClient
from rsigym.services.training import TrainingService
from rsigym.services.training_job import require_own
from rsigym.services.workspace import WorkspaceService
from rsigym.services.workspace_files import Workspace

__all__ = ["open_local"]

TRIALS_AT_ONCE = 8
"""More than cores: the model answers them as one batch, which is faster than one by one."""

PROCESS_WARNING = (
    "isolation: process. Trials ran as plain processes of this machine, without a sandbox: "
    "install bubblewrap, or use this with harnesses that you trust"
)


@dataclass(frozen=True)
class _Setup:
    """What an experiment needs of this machine, found to be there."""

    isolation: Isolation
    model: str
    models: dict[str, Path]
    harness: Harness
    prices: PriceBook
    development: dict[str, list[Path]]
    official: dict[str, list[Path]]

    @classmethod
    def of(cls, experiment: Experiment) -> "_Setup":
        model = experiment.model
        models = {model: model_folder(experiment.initial_system.model)}
        cache = home() / "tasks"
        chosen = {name: benchmarks.get(name) for name in experiment.benchmarks}
        official = {
            name: benchmark.tasks("official", cache)[: experiment.n_official_tasks]
            for name, benchmark in chosen.items()
        }
        return cls(
            isolation=choose_isolation(experiment.sandbox),
            model=model,
            models=models,
            harness=_starting_harness(experiment),
            prices=local_prices(models, rollout_prices(experiment.rollout_models)),
            development=official
            if experiment.protocol == "paper"
            else {name: b.tasks("development", cache) for name, b in chosen.items()},
            official=official,
        )


def open_local(experiment: Experiment, permissions: Permissions, run_dir: str | None) -> Episode:
    """Open a run on this machine's own services. Nothing heavy starts before it is used.

    Args:
        permissions: The experiment's, or narrower ones.
        run_dir: Where the run's folder is made; `runs` below `RSIGYM_HOME` if None.

    Raises:
        OperatorError: Something that the run needs is missing here; the message says what to do.
    """
    setup = _Setup.of(experiment)
    folder = _new_folder(experiment, Path(run_dir) if run_dir else home() / "runs")
    records = folder / "records"
    workspace = Workspace(folder / "workspace")
    setup.harness.unpack(workspace.root / "harness")
    ledger = _open_ledger(experiment, folder)
    deadline = time.monotonic() + (experiment.time_limit_s or math.inf)

    jobs, loop = Jobs(), BackgroundLoop()
    client = TinkerClient(lambda: _tinker_address(setup.models))
    inference = InferenceService(
        client, setup.prices, [*setup.models], loop, lambda path: require_own(path, jobs)
    )
    trials = Trials(
        loop=loop,
        slots=asyncio.Semaphore(TRIALS_AT_ONCE),
        environment="rsigym.local.harbor_environment:SandboxEnvironment",
        environment_kwargs={"isolation": setup.isolation, "sandboxes": str(home() / "sandboxes")},
        endpoint=TrialEndpoints(inference),
        sandbox_millisecond=setup.prices.sandbox_millisecond,
        score=lambda trials, tasks, attempts: benchmarks.score(trials, tasks, attempts).to_json(),
    )
    evaluation = EvaluationService(setup.development, inference, trials, workspace, records, jobs)
    journal = Journal(folder / JOURNAL)
    official = Official(
        tasks=setup.official,
        n_attempts=experiment.n_attempts,
        trials=trials,
        isolation=setup.isolation,
        ledger=ledger,
        account=_official_account(folder),
        journal=journal,
        records=records,
        fingerprint=lambda model: _weights_digest(setup.models[model]),
    )
    scoreboard = Scoreboard(experiment.benchmarks, jobs)
    initial = (setup.model, setup.harness)
    services = {
        "workspace": WorkspaceService(workspace),
        "training": TrainingService(client, workspace, records, setup.prices, jobs, setup.model),
        "inference": inference,
        "rollout": RolloutService(experiment.rollout_models, setup.prices.rollout),
        "evaluation": evaluation,
        "run": RunService(
            scoreboard, evaluation, official, initial, inference, workspace, jobs, deadline
        ),
    }
    run = Run(folder.name, folder, permissions, ledger, services, setup.harness.id)

    def release() -> None:
        loop.close()
        client.close()
        journal.close()
        ledger.close()

    _write_experiment(experiment, setup, run)
    return Episode(
        experiment=experiment,
        run=run,
        jobs=jobs,
        scoreboard=scoreboard,
        official=official,
        deadline=deadline,
        welcome=_welcome(experiment, setup),
        isolation=setup.isolation,
        warnings=[PROCESS_WARNING] if setup.isolation == "process" else [],
        release=release,
    )


def _starting_harness(experiment: Experiment) -> Harness:
    try:
        return pack(experiment.harness_folder)
    except BadCall as error:
        raise OperatorError(f"the initial harness is not valid: {error.message}") from error


def _new_folder(experiment: Experiment, parent: Path) -> Path:
    """A run folder that nobody else has; its name is the run's id."""
    when = time.strftime("%Y%m%d-%H%M%S")
    folder = parent / f"{experiment.name.lower()}-{when}-{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise OperatorError(f"no run folder can be made at {folder}: {error}") from error
    return folder.resolve()


def _open_ledger(experiment: Experiment, folder: Path) -> Ledger:
    ledger = open_ledger(folder)
    ledger.open(folder.name, to_nano(experiment.budget_usd))
    ledger.open(_official_account(folder), None)
    return ledger


def _official_account(folder: Path) -> str:
    return f"{folder.name}/official"


def _tinker_address(models: dict[str, Path]) -> tuple[str, str]:
    """Another Tinker endpoint if the operator names one, else this machine's own."""
    url = os.environ.get("TINKER_BASE_URL")
    if url:
        return url, os.environ.get("TINKER_API_KEY", "")
    server = shared_tinker_server(models)
    return server.url, server.api_key


def _weights_digest(folder: Path) -> str:
    """SHA-256 over a model folder's weight files."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


def _welcome(experiment: Experiment, setup: _Setup) -> Evidence:
    """What an agent sees first."""
    return {
        "experiment": experiment.name,
        "goal": (
            "Improve the system, a model and its harness, on held-out tasks of the benchmarks. "
            "The workspace holds the harness; budget.balance, budget.quote and inference.models "
            "are free. End with run.submit: you are paid the share of the gap to a perfect score "
            "that the submitted system closes on the official tasks."
        ),
        "initial_system": {"model": setup.model, "harness": "harness"},
        "benchmarks": {
            name: {"development_tasks": len(tasks)} for name, tasks in setup.development.items()
        },
        "budget_usd": experiment.budget_usd,
    }


def _write_experiment(experiment: Experiment, setup: _Setup, run: Run) -> None:
    """All that fixes the run, in `experiment.json`."""
    write_json(
        run.folder / "experiment.json",
        {
            **describe(experiment),
            "run": run.id,
            "permissions": run.permissions.model_dump(mode="json"),
            "prices": {"version": setup.prices.version, "sha256": setup.prices.digest()},
            "isolation": setup.isolation,
            "initial_harness": setup.harness.id,
            "development_tasks": {
                name: [task.name for task in tasks] for name, tasks in setup.development.items()
            },
            "official_tasks": {
                name: [task.name for task in tasks] for name, tasks in setup.official.items()
            },
        },
    )
