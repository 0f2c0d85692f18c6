"""Submitting: each benchmark once, whoever else submits at the same time."""

from dataclasses import dataclass, field

from rsigym.envs.scoreboard import Scoreboard
from rsigym.envs.submission import RunService
from rsigym.operations.json_value import Json
from rsigym.operations.run import RunSubmit
from rsigym.platform.errors import BadCall
from rsigym.platform.memory_ledger import MemoryLedger
from rsigym.platform.meter import Meter
from rsigym.platform.prices import TokenPrice
from rsigym.services.harness import Harness
from rsigym.services.jobs import Jobs
from tests.envs.memory_env import Evaluation

HARNESS = Harness("id", b"", 0)
METER = Meter(MemoryLedger(), "run", "run/1")


@dataclass
class Measure:
    """Counts what it measures."""

    measured: list[str] = field(default_factory=list[str])

    def initial(self, benchmark: str) -> dict[str, Json]:
        return {"score": 0.0}

    def submitted(
        self, benchmark: str, model: str, harness: Harness, initial: float
    ) -> tuple[dict[str, Json], dict[str, Json]]:
        self.measured.append(benchmark)
        return {"score": 0.5}, {"survives": None}


class Models:
    def ready(self, model: str) -> TokenPrice:
        return TokenPrice(0, 0, 0, 0)


def test_a_submission_that_comes_while_another_is_noted_is_turned_away() -> None:
    jobs, measure = Jobs(), Measure()
    jobs.add("evaluation", lambda handle: Evaluation(handle, "A", 0.5))
    told: list[str] = []

    class Slow(Scoreboard):
        def submit(self, benchmark: str, outcome: dict[str, Json]) -> None:
            if not told:
                try:
                    submit.perform(METER)
                except BadCall as turned_away:
                    told.append(turned_away.message)
            super().submit(benchmark, outcome)

    service = RunService(
        Slow(["A"], jobs, None),
        lambda name: name or "A",
        lambda path: HARNESS,
        measure,
        Models(),
        jobs,
        lambda: 1.0,
    )
    submit = service.prepare(RunSubmit(model="m"))
    assert submit.perform(METER)["episode_ended"] is True
    assert (measure.measured, told) == (
        ["A"],
        ["a submission is being evaluated: wait for its answer"],
    )
