"""Official evaluation: the frozen measurement that a submission is paid by.

It runs through the same trials as development, on an account of its own that no budget limits.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rsigym
from rsigym.operations.json_value import Json
from rsigym.platform.errors import ServiceFailure
from rsigym.platform.home import home
from rsigym.platform.journal import Journal
from rsigym.platform.ledger import Ledger
from rsigym.platform.meter import Meter
from rsigym.platform.records import write_json
from rsigym.services.evaluation_job import EvaluationJob, EvaluationPlan, Trials
from rsigym.services.harness import Harness

__all__ = ["Official"]


@dataclass(frozen=True)
class Official:
    """Measures systems on the official tasks.

    Attributes:
        tasks: The official task folders by benchmark.
        n_attempts: Trials of each.
        account: What it is booked to.
        journal: Where its beginnings and bills are noted, as those of calls are.
        fingerprint: What identifies a base model's weights.
        isolation: How trials are isolated; part of what an initial score depends on.
        jobs: The evaluations that were begun, for those who show progress.
    """

    tasks: Mapping[str, Sequence[Path]]
    n_attempts: int
    trials: Trials
    isolation: str
    ledger: Ledger
    account: str
    journal: Journal
    records: Path
    fingerprint: Callable[[str], str]
    jobs: list[EvaluationJob] = field(default_factory=list[EvaluationJob])

    def measure(self, name: str, benchmark: str, model: str, harness: Harness) -> dict[str, Json]:
        """The official score of a system; its trials are kept under `records/official/`.

        Raises:
            ServiceFailure: It did not come to its end.
        """
        name = self._unused(name)
        plan = EvaluationPlan(
            benchmark, tuple(self.tasks[benchmark]), self.n_attempts, model, harness
        )
        call_id = f"{self.account}/{name}"
        meter = Meter(self.ledger, self.account, call_id, self.journal)
        meter.begin("evaluation.official", self.trials.sandbox_worst(plan))
        folder = self.records / "official" / name
        job = EvaluationJob(f"official {name}", plan, folder, meter, self.trials, lambda: None)
        job.start()
        self.jobs.append(job)
        try:
            job.join()
        except BaseException:
            job.cancel()
            job.join()
            raise
        if job.state != "done":
            raise ServiceFailure(
                f"the official evaluation of {name} ended as {job.state}: "
                f"{job.error or 'it was stopped'}; submit again"
            )
        return job.score

    def measure_initial(self, benchmark: str, model: str, harness: Harness) -> dict[str, Json]:
        """The initial system's official score, measured once and then kept under `RSIGYM_HOME`.

        Raises:
            ServiceFailure: As `measure`.
        """
        kept = home() / "initial_scores" / f"{self._key(benchmark, model, harness)}.json"
        if kept.exists():
            return json.loads(kept.read_text(encoding="utf-8"))
        score = self.measure(f"{benchmark}-initial", benchmark, model, harness)
        if score.get("complete"):
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_json(kept, score)
        return score

    def _unused(self, name: str) -> str:
        """The name, numbered where an earlier measurement of it did not come to its end."""
        earlier = len(list((self.records / "official").glob(f"{name}*")))
        return f"{name}-{earlier + 1}" if earlier else name

    def _key(self, benchmark: str, model: str, harness: Harness) -> str:
        """A hash of all that the score depends on."""
        parts = [
            rsigym.__version__,
            benchmark,
            model,
            self.fingerprint(model),
            harness.id,
            str(self.n_attempts),
            self.isolation,
            *(_digest(task) for task in self.tasks[benchmark]),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _digest(folder: Path) -> str:
    """A hash of every file's path and content below a task folder."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(folder.parent)} {content}\n".encode())
    return digest.hexdigest()
