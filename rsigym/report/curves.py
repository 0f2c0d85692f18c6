"""The report's curves: development scores as time passes and money is spent, training losses."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rsigym.report.charts import Point, Series, line_chart
from rsigym.report.markup import Html, Node, element, table
from rsigym.report.run_folder import Evaluation, RunFolder, Training
from rsigym.report.wording import dollars, score, short_harness, short_model

__all__ = ["development_curves", "loss_curves"]

_MARKED = 60
"""Steps up to which each has a mark of its own."""


def development_curves(run: RunFolder) -> Html | None:
    """Scores by time and by money."""
    evaluations = [each for each in run.development if each.ended and _has_score(each)]
    started = run.started
    if not evaluations or started is None:
        return None
    by_time = _scores(run, evaluations, lambda moment: (moment - started) / 60)
    charts = [line_chart(by_time, x="minutes", y="score", y_range=(0, 1))]
    if run.entries:
        by_money = _scores(run, evaluations, run.spent)
        charts.append(line_chart(by_money, x="US dollars spent", y="score", y_range=(0, 1)))
    return element(
        "section", element("h2", "Development scores"), element("div", charts, class_="charts")
    )


def loss_curves(run: RunFolder) -> Html | None:
    """The loss of every training run, step by step."""
    series = [_losses(each) for each in run.trainings]
    drawn = [each for each in series if each.points]
    if not drawn:
        return None
    chart = line_chart(drawn, x="step", y="negative log-likelihood per trained token")
    head = ["", "base model", "rank", "learning rate", "batch", "steps", "last nll", "cost"]
    return element(
        "section",
        element("h2", "Training"),
        element("div", chart, class_="charts"),
        table(head, [_training(each) for each in run.trainings]),
    )


def _has_score(evaluation: Evaluation) -> bool:
    value = evaluation.summary.get("score")
    return isinstance(value, int | float) and math.isfinite(value)


def _scores(
    run: RunFolder, evaluations: list[Evaluation], across: Callable[[float], float]
) -> list[Series]:
    """Development scores of each benchmark; where there is one, its official scores as levels."""
    by_benchmark: dict[str, list[Point]] = {}
    for each in evaluations:
        points = by_benchmark.setdefault(each.summary.get("benchmark", ""), [])
        points.append(_point(each, across))
    series = [Series(f"{name} development".strip(), each) for name, each in by_benchmark.items()]
    if len(series) > 1:
        return series
    official = run.result.get("benchmarks", {}).get(next(iter(by_benchmark)), {})
    return series + [
        Series(f"{name} (official)", [Point(0, official[name]["score"], "")], level=True)
        for name in ("initial", "submitted")
        if name in official
    ]


def _point(evaluation: Evaluation, across: Callable[[float], float]) -> Point:
    summary = evaluation.summary
    x = across(datetime.fromisoformat(evaluation.ended).timestamp())
    cost = summary.get("cost_usd")
    title = (
        f"{evaluation.handle}: {score(summary['score'])}, {short_model(summary['model'])}, "
        f"harness {short_harness(summary['harness'])}"
    )
    return Point(x, summary["score"], title if cost is None else f"{title}, {dollars(cost)}")


def _training(training: Training) -> list[Node]:
    config = training.config.get("config", {})
    metrics = training.metrics
    return [
        training.handle,
        short_model(training.config.get("base_model", "")),
        config.get("lora_config", {}).get("rank"),
        config.get("adam_params", {}).get("learning_rate"),
        config.get("batch_size"),
        len(metrics),
        f"{metrics[-1]['nll']:.4f}" if metrics else "–",
        dollars(sum(step["cost_usd"] for step in metrics)),
    ]


def _losses(training: Training) -> Series:
    points = [
        Point(step["step"], step["nll"], _step_title(step))
        for step in training.metrics
        if math.isfinite(step["nll"])
    ]
    return Series(training.handle, points, marked=len(points) <= _MARKED)


def _step_title(step: Mapping[str, Any]) -> str:
    return f"step {step['step']}: {step['nll']:.4f}, learning rate {step['lr']:.3g}"
