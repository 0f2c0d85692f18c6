"""A training run at work: step by step, each step held before it runs and booked after it."""

import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rsigym.operations.json_value import Json
from rsigym.platform.errors import BadCall, BudgetExhausted, Failure, ServiceFailure
from rsigym.platform.ledger import Item
from rsigym.platform.meter import Meter
from rsigym.platform.money import to_usd
from rsigym.services.jobs import Jobs, JobState
from rsigym.services.renderer import Rendered
from rsigym.services.tinker_client import TinkerClient
from rsigym.services.tinker_trainer import Trainer
from rsigym.services.training_plan import Plan

__all__ = ["Checkpoint", "Origin", "TrainingJob", "require_own"]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a run starts from: a new adapter on `base_model`, or `init_from`'s weights."""

    base_model: str
    init_from: str | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights after `step` steps: to sample from, and to train on from."""

    step: int
    sampler: str
    state: str


class TrainingJob:
    """One training run, in a thread of its own.

    Args:
        handle: Its name.
        plan: What it does.
        origin: What it starts from.
        price: Nano-USD a trained token.
        client: Where it trains.
        jobs: Who is told of every step.
        folder: Where `metrics.jsonl` is written.
    """

    finishes = True

    def __init__(
        self,
        handle: str,
        *,
        plan: Plan,
        origin: Origin,
        price: int,
        client: TinkerClient,
        jobs: Jobs,
        folder: Path,
    ):
        self.handle = handle
        self.plan = plan
        self._origin, self._price, self._client = origin, price, client
        self._jobs, self._folder = jobs, folder
        self._lock = threading.Lock()
        self._state: JobState = "running"
        self._metrics: list[dict[str, Json]] = []
        self._checkpoints: list[Checkpoint] = []
        self._error: Failure | None = None
        self._meter: Meter | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> JobState:
        return self._state

    @property
    def progress(self) -> tuple[int, int]:
        return len(self._metrics), self.plan.steps

    @property
    def quote(self) -> int:
        """Nano-USD of all steps."""
        return sum(self.plan.step_tokens) * self._price

    def start(self, meter: Meter) -> None:
        """Begin. `meter` holds the first step's cost."""
        self._meter = meter
        self._thread = threading.Thread(
            target=self._run, args=[meter], name=f"rsigym-{self.handle}", daemon=True
        )
        self._thread.start()

    def cancel(self) -> None:
        self._stop.set()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def summary(self) -> dict[str, Json]:
        with self._lock:
            return {
                "handle": self.handle,
                "kind": "training",
                "state": self._state,
                "step": len(self._metrics),
                "steps": self.plan.steps,
                "nll": self._metrics[-1]["nll"] if self._metrics else None,
                "cost_usd": to_usd(self._meter.spent if self._meter else 0),
                "checkpoint": self._checkpoints[-1].sampler if self._checkpoints else None,
            }

    @property
    def paths(self) -> set[str]:
        """Of its checkpoints, of both kinds."""
        with self._lock:
            return {path for each in self._checkpoints for path in (each.sampler, each.state)}

    def status(self, offset: int, limit: int) -> dict[str, Json]:
        """The summary, the metrics of some steps, every checkpoint, and the error of a failure."""
        summary = self.summary()
        with self._lock:
            shown: list[Json] = [*self._metrics[offset : offset + limit]]
            end = offset + len(shown)
            return {
                **summary,
                "metrics": shown,
                "next_offset": end if end < len(self._metrics) else None,
                "checkpoints": [asdict(checkpoint) for checkpoint in self._checkpoints],
                "error": self._error.evidence()["error"] if self._error else None,
            }

    def _run(self, meter: Meter) -> None:
        state: JobState = "failed"
        error: Failure | None = None
        try:
            state, error = self._outcome(meter)
            meter.settle()
        finally:
            with self._lock:
                self._state, self._error = state, error
            self._jobs.changed()

    def _outcome(self, meter: Meter) -> tuple[JobState, Failure | None]:
        origin, lora = self._origin, self.plan.config.lora_config
        try:
            with self._client.trainer(origin.base_model, lora, origin.init_from) as trainer:
                return self._train(trainer, meter)
        except Failure as failure:
            return "failed", failure
        except Exception as bug:  # noqa: BLE001 - nothing else would tell the agent
            return "failed", ServiceFailure(f"training failed: {type(bug).__name__}: {bug}")

    def _train(self, trainer: Trainer, first: Meter) -> tuple[JobState, Failure | None]:
        """Step until the end, a cancel or the end of the money; the work paid for is kept."""
        outcome: JobState = "done"
        reason: Failure | None = None
        for step in range(self.plan.steps):
            if self._stop.is_set():
                outcome = "cancelled"
                break
            try:
                meter = first.piece(self._cost(step)) if step else first
            except BudgetExhausted as exhausted:
                outcome, reason = "exhausted", exhausted
                break
            try:
                self._step(trainer, step, meter)
            finally:
                meter.settle()
            self._jobs.changed()
            every = self.plan.config.checkpoint_every
            if every is not None and (step + 1) % every == 0:
                self._save(trainer)
        self._save(trainer)
        return outcome, reason

    def _step(self, trainer: Trainer, step: int, meter: Meter) -> None:
        batch, rate = self.plan.batch(step), self.plan.learning_rate(step)
        logprobs = trainer.step(batch, self.plan.config.adam_params, rate)
        tokens = self.plan.step_tokens[step]
        meter.charge(Item("training", "train", tokens, "token", self._price))
        self._note(
            {
                "step": step + 1,
                "nll": _nll(batch, logprobs),
                "lr": rate,
                "tokens": tokens,
                "cost_usd": to_usd(self._cost(step)),
            }
        )

    def _cost(self, step: int) -> int:
        return self.plan.step_tokens[step] * self._price

    def _note(self, metrics: dict[str, Json]) -> None:
        with (self._folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")
        with self._lock:
            self._metrics.append(metrics)

    def _save(self, trainer: Trainer) -> None:
        """Save what the weights are now, once; saving is free."""
        step = len(self._metrics)
        if step == 0 or (self._checkpoints and self._checkpoints[-1].step == step):
            return
        checkpoint = Checkpoint(step, *trainer.save(f"step-{step:06d}"))
        with self._lock:
            self._checkpoints.append(checkpoint)


def require_own(path: str, jobs: Jobs) -> None:
    """Raise `BadCall` unless a checkpoint was trained in this run: others are not its work."""
    if not any(path in job.paths for job in jobs.of(TrainingJob)):
        raise BadCall(
            f"there is no checkpoint {path} in this run; training.status names those of a run",
            code="model_not_found",
        )


def _nll(batch: Sequence[Rendered], logprobs: Sequence[np.ndarray]) -> float:
    """Negative log-likelihood per trained token, before the step."""
    weights = np.concatenate([record.weights[1:] for record in batch])
    nll = -float(np.dot(weights, np.concatenate(logprobs)) / weights.sum())
    if not np.isfinite(nll):
        raise BadCall(
            "training diverged: the loss is not a finite number any more; set the learning rate "
            "lower, or grad_clip_norm"
        )
    return nll
