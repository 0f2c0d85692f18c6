"""How amounts, scores and names are written for people, in a terminal and in a report."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = [
    "clock",
    "dollars",
    "duration",
    "score",
    "score_with_interval",
    "short_harness",
    "short_model",
]


def dollars(usd: float) -> str:
    """An amount of US dollars; small ones with the digits that matter."""
    return f"${usd:.2f}" if usd == 0 or abs(usd) >= 1 else f"${usd:.4f}"


def score(value: float | None) -> str:
    """A score between 0 and 1, or a dash where there is none."""
    return "–" if value is None else f"{value:.3f}"


def score_with_interval(measured: Mapping[str, Any]) -> str:
    """The score of a measurement with the interval around it."""
    text = score(measured.get("score"))
    match measured.get("interval"):
        case [float() | int() as low, float() | int() as high]:
            return f"{text} [{low:.3f}, {high:.3f}]"
        case _:
            return text


def short_model(model: str) -> str:
    """A base model without its organisation; of a checkpoint, the run's and its own name.

    >>> short_model("HuggingFaceTB/SmolLM2-135M-Instruct")
    'SmolLM2-135M-Instruct'
    >>> short_model("tinker://4f1c2ab9d0:train:0/sampler_weights/step-000040")
    '4f1c2ab9…/step-000040'
    """
    if not model.startswith("tinker://"):
        return model.rstrip("/").rpartition("/")[2] or model
    run, _, rest = model.removeprefix("tinker://").partition("/")
    own = rest.rpartition("/")[2]
    return f"{run if len(run) <= 8 else run[:8] + '…'}/{own}"


def short_harness(harness: str) -> str:
    """The beginning of a harness's hash: enough to tell two apart."""
    return harness[:8]


def duration(seconds: float) -> str:
    """As `1 h 02 min`, `3 min 20 s` or `4.2 s`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.1f} s"


def clock(moment: float) -> str:
    """The time of day in UTC, of seconds since 1970."""
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")
