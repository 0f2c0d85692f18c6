"""What is shown of jobs while they run."""

from pathlib import Path
from typing import Any

from rsigym.commands.watch import Budget, Progress, progress_of
from rsigym.operations.sandbox import SandboxCreate
from rsigym.services.evaluation_job import EvaluationJob, EvaluationPlan
from rsigym.services.harness import Harness
from rsigym.services.sandbox_job import SandboxJob
from tests.commands.tiny_env import trial

NOTHING: Any = None
"""What a job needs to run, and these do not."""


def evaluation(folder: Path) -> EvaluationJob:
    plan = EvaluationPlan("Integers", (Path("a"), Path("b")), 2, "m", Harness("0" * 64, b"", 0))
    return EvaluationJob("evaluation-1", plan, folder, NOTHING, NOTHING, lambda: None)


def test_an_evaluation_shows_the_mean_reward_of_the_trials_that_ended(tmp_path: Path):
    job = evaluation(tmp_path)
    assert progress_of(job) == Progress("evaluation-1", 0, 4, "trials", "running", "")

    job.records += [trial("a", 0, 1.0), trial("a", 1, None), trial("b", 0, 0.0)]

    assert progress_of(job).done == 3
    assert progress_of(job).detail == "mean reward 0.333"


def test_a_sandbox_shows_how_long_it_has_lived():
    job = SandboxJob(
        "sandbox-1",
        SandboxCreate(timeout_s=300),
        meter=NOTHING,
        terms=NOTHING,
        seconds=60,
        remote=NOTHING,
        loop=NOTHING,
        ended=lambda: None,
    )
    assert progress_of(job) == Progress("sandbox-1", 0, 300, "s", "running", "")


def test_a_budget_names_what_is_held_only_when_something_is():
    assert str(Budget(0.25, 0.5, 5)) == "$0.2500 spent, $0.5000 held of $5.00"
    assert str(Budget(1.5, 0, 5)) == "$1.50 spent of $5.00"
