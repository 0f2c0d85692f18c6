"""A small run folder, made by the real pipeline, with evaluations put beside it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rsigym.platform.records import write_json
from rsigym.services.trial_errors import TrialError
from rsigym.services.trial_records import TrialRecord
from tests.commands.tiny_env import TinyEnv, trial

__all__ = ["make_run", "put_evaluation"]

CALLS = (
    {"op": "workspace.write", "args": {"path": "notes.md", "content": "# What I know\n"}},
    {"op": "training.submit", "args": {"data": [], "config": {"max_steps": 30}}},
    {"op": "training.submit", "args": {"data": [], "config": {"max_steps": 12}}},
    {"op": "run.wait", "args": {"handles": ["training-1"], "timeout_s": 60.0}},
    {"op": "run.wait", "args": {"handles": ["training-2"], "timeout_s": 60.0}},
    {"op": "training.submit", "args": {"data": [], "config": {"max_steps": 9000}}},
    {"op": "no.such.op", "args": {}},
    "not a call at all",
    {"op": "run.submit", "args": {"model": "tinker://4f1c2ab9d0:train:0/sampler_weights/step-12"}},
)


def make_run(folder: Path, calls: Sequence[object] = CALLS) -> Path:
    """Make `calls` in a run below `folder`, and answer the run folder.

    With its two evaluations it has every kind of record that a report shows.
    """
    env = TinyEnv(run_dir=str(folder))
    env.reset(seed=1)
    for call in calls:
        env.step(call)
    env.close()
    run = folder / "tiny-1"
    put_evaluation(run, "evaluation-1", 1 / 3, [trial("a", 0, 0.0), trial("b", 0, 1.0), lost("c")])
    put_evaluation(run, "evaluation-2", 2 / 3, [trial("a", 0, 1.0), trial("b", 1, 1.0), lost("c")])
    return run


def lost(task: str) -> TrialRecord:
    """A trial without a reward."""
    error = TrialError("harness", "AgentTimeoutError", "it took <b>too</b> long")
    return replace(trial(task, 0, None), error=error)


def put_evaluation(run: Path, handle: str, score: float, trials: Sequence[TrialRecord]) -> None:
    """Write an evaluation's records, and enter it into the result."""
    folder = run / "records" / handle
    for record in trials:
        place = folder / "trials" / record.name
        place.mkdir(parents=True)
        write_json(place / "record.json", record.to_json())
    result: dict[str, Any] = json.loads((run / "result.json").read_text())
    result["development"].append(
        {
            "handle": handle,
            "state": "done",
            "benchmark": "Integers",
            "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
            "harness": "3fa9" * 16,
            "done": len(trials),
            "total": len(trials),
            "score": score,
            "cost_usd": 0.0123,
        }
    )
    write_json(run / "result.json", result)
