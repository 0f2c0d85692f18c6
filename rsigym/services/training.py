"""The training service: LoRA on a Tinker endpoint. Everything is checked before it is paid."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rsigym.operations import Operation
from rsigym.operations.training import TrainingCancel, TrainingStatus, TrainingSubmit
from rsigym.platform.errors import BadCall
from rsigym.platform.ledger import Item
from rsigym.platform.meter import Meter
from rsigym.platform.money import to_usd
from rsigym.platform.prices import PriceBook
from rsigym.platform.records import write_json
from rsigym.platform.service import Evidence, Prepared, Quote
from rsigym.services.jobs import Jobs, job_folders
from rsigym.services.tinker_client import TinkerClient
from rsigym.services.tinker_connection import ServedModel
from rsigym.services.training_data import TrainingData, open_data
from rsigym.services.training_job import Origin, TrainingJob, TrainingRun, require_own
from rsigym.services.training_log import TrainingLog
from rsigym.services.training_plan import Plan, make_plan
from rsigym.services.workspace_files import Workspace

__all__ = ["TrainingService"]


class TrainingService:
    """Does `training.submit`, `training.status` and `training.cancel`.

    Args:
        client: Where it trains.
        workspace: Where data files are.
        records: Where each run's data, config and metrics are kept, in a folder by its handle.
        prices: What a token costs.
        jobs: Where runs are entered.
        default_model: The base model of a config that names none.
    """

    def __init__(
        self,
        client: TinkerClient,
        workspace: Workspace,
        records: Path,
        prices: PriceBook,
        jobs: Jobs,
        default_model: str,
    ):
        self._client = client
        self._workspace = workspace
        self._records = records
        self._prices = prices
        self._jobs = jobs
        self._default_model = default_model

    def prepare(self, operation: Operation) -> Prepared:
        match operation:
            case TrainingSubmit():
                return self._submit(operation)
            case TrainingStatus():
                job = self._jobs.get(operation.handle, TrainingJob)
                return Prepared(lambda _: job.status(operation.offset, operation.limit))
            case TrainingCancel():
                job = self._jobs.get(operation.handle, TrainingJob)
                return Prepared(lambda _: _cancel(job))
            case _:
                raise TypeError(f"not an operation of training: {operation.op}")

    def close(self) -> None:
        """Cancel every run and wait for its checkpoint."""
        running = [job for job in self._jobs.running() if isinstance(job, TrainingJob)]
        for job in running:
            job.cancel()
        for job in running:
            job.join()

    def restore(self, past: Callable[[str], Meter]) -> None:
        """Enter the runs that an earlier process left in the records.

        Args:
            past: The meter of a call that was made then.
        """
        for folder in job_folders(self._records, "training"):
            config = folder / "config.json"
            if not config.exists():  # it never began
                shutil.rmtree(folder)
                continue
            about = json.loads(config.read_text(encoding="utf-8"))
            log = TrainingLog.past(folder, about["steps"])
            self._jobs.restore(TrainingJob(folder.name, log, past(about["call"])))

    def _submit(self, operation: TrainingSubmit) -> Prepared:
        _check_config(operation)
        data = open_data(operation.data, self._workspace)
        origin = self._origin(operation)
        model = self._served(origin.base_model)
        price = self._prices.tokens(model.name).train
        renderer = self._client.renderer(model.name)
        plan = make_plan(data, operation.config, renderer, model.context)

        def perform(meter: Meter) -> Evidence:
            job = self._jobs.add(
                "training", lambda handle: self._make(handle, data, plan, origin, price, meter)
            )
            meter.detach()
            job.start()
            return _answer(job.handle, plan, origin, quote)

        quote = _quote(plan, price)
        return Prepared(perform, quote)

    def _origin(self, operation: TrainingSubmit) -> Origin:
        wanted, path = operation.config.base_model, operation.init_from
        if path is None:
            return Origin(wanted or self._default_model, None)
        if "/sampler_weights/" in path:
            raise BadCall(
                f"{path} is a sampler checkpoint and cannot be trained on: give the state of the "
                "same step, which training.status shows beside it"
            )
        require_own(path, self._jobs)
        info = self._client.checkpoint(path)
        if wanted not in (None, info.base_model):
            raise BadCall(f"{path} is a checkpoint of {info.base_model}, not of {wanted}")
        lora = operation.config.lora_config
        if "rank" in lora.model_fields_set and info.rank not in (None, lora.rank):
            raise BadCall(f"{path} has rank {info.rank}, which cannot be changed to {lora.rank}")
        return Origin(info.base_model, path)

    def _served(self, base_model: str) -> ServedModel:
        models = self._client.models()
        model = models.get(base_model)
        if model is None or not model.trainable:
            served = ", ".join(name for name, each in models.items() if each.trainable)
            raise BadCall(f"base model {base_model!r} cannot be trained here; these can: {served}")
        return model

    def _make(
        self,
        handle: str,
        data: TrainingData,
        plan: Plan,
        origin: Origin,
        price: int,
        meter: Meter,
    ) -> TrainingRun:
        folder = self._records / handle
        folder.mkdir(parents=True, exist_ok=True)
        data.keep(folder / "data.jsonl")
        about = {
            **asdict(origin),
            "data": data.name,
            "config": plan.config.model_dump(mode="json"),
            "steps": plan.steps,
            "call": meter.call_id,
        }
        write_json(folder / "config.json", about)
        return TrainingRun(
            handle,
            TrainingLog(folder, plan.steps),
            meter,
            plan=plan,
            origin=origin,
            price=price,
            client=self._client,
            jobs=self._jobs,
        )


def _check_config(operation: TrainingSubmit) -> None:
    config = operation.config
    lora = config.lora_config
    if not (lora.train_mlp or lora.train_attn or lora.train_unembed):
        raise BadCall("lora_config trains nothing: set train_mlp, train_attn or train_unembed")
    if config.loss_fn_config:
        named = ", ".join(config.loss_fn_config)
        raise BadCall(f"loss_fn {config.loss_fn} has no settings, so leave out {named}")


def _quote(plan: Plan, price: int) -> Quote:
    tokens = sum(plan.step_tokens)
    cost = tokens * price
    return Quote(
        expected=cost,
        worst=cost,
        hold=plan.step_tokens[0] * price,
        items=(Item("training", "train", tokens, "token", price),),
    )


def _answer(handle: str, plan: Plan, origin: Origin, quote: Quote) -> Evidence:
    return {
        "handle": handle,
        "base_model": origin.base_model,
        "records": len(plan.data),
        "tokens": plan.tokens,
        "trained_tokens": plan.trained_tokens,
        "truncated": plan.truncated,
        "steps": plan.steps,
        "quote_usd": to_usd(quote.worst),
    }


def _cancel(job: TrainingJob) -> Evidence:
    job.cancel()
    return job.summary()
