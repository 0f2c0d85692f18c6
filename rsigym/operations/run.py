"""The episode itself: waiting for running work, and ending it with a submission."""

from typing import Annotated

from pydantic import Field

from rsigym.operations.base import Handle, HarnessPath, ModelName, OnBenchmark, Operation

__all__ = ["RunSubmit", "RunWait"]


class RunWait(Operation, op="run.wait"):
    """Wait until one of the handles ends, or the time is up; all running work by default."""

    handles: Annotated[
        list[Handle] | None, Field(max_length=1000, description="Of training and evaluations.")
    ] = None
    timeout_s: Annotated[float, Field(ge=0, le=3600, description="Seconds to wait at most.")] = 60.0


class RunSubmit(Operation, op="run.submit"):
    """Submit a system. It is checked, officially evaluated, and ends the episode.

    A submission that is not valid is answered with what is wrong and ends nothing.
    """

    model: ModelName
    harness: HarnessPath = "harness"
    benchmark: OnBenchmark = None
