"""Measuring a model–harness pair on a benchmark's development tasks."""

from typing import Annotated

from pydantic import Field

from rsigym.operations.base import Handle, HarnessPath, ModelName, OnBenchmark, Operation

__all__ = ["EvaluationCancel", "EvaluationRead", "EvaluationStatus", "EvaluationSubmit"]


class EvaluationSubmit(Operation, op="evaluation.submit", paid=True):
    """Run a model and a harness on development tasks, in sandboxed trials. Answers a handle."""

    model: ModelName
    harness: HarnessPath = "harness"
    benchmark: OnBenchmark = None
    tasks: Annotated[
        list[str] | None, Field(min_length=1, max_length=1000, description="Globs of task names.")
    ] = None
    n_tasks: Annotated[int | None, Field(ge=1, le=1000, description="The first so many.")] = None
    n_attempts: Annotated[int, Field(ge=1, le=32, description="Trials of a task.")] = 1
    timeout_multiplier: Annotated[
        float, Field(gt=0, le=10, description="Of the timeouts of the tasks.")
    ] = 1.0


class EvaluationStatus(Operation, op="evaluation.status"):
    """State, score and cost of an evaluation, and the reward of each trial that has ended."""

    handle: Handle


class EvaluationCancel(Operation, op="evaluation.cancel"):
    """Stop an evaluation; trials that have ended keep their rewards."""

    handle: Handle


class EvaluationRead(Operation, op="evaluation.read"):
    """Read what a trial left: its files, or one of them from a character offset."""

    handle: Handle
    trial: Annotated[
        str, Field(min_length=1, max_length=200, description="A trial's name.", examples=["t-1"])
    ]
    file: Annotated[
        str | None,
        Field(max_length=512, description="Such as agent/trajectory.json; none lists them."),
    ] = None
    offset: Annotated[int, Field(ge=0, description="The first character to read.")] = 0
    limit: Annotated[int, Field(ge=1, le=32_768, description="Characters at most.")] = 16_384
