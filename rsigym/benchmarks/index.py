"""The RSI-Index: which share of the gap to a perfect score a system closed."""

import math
from collections.abc import Mapping

__all__ = ["rsi_index"]


def rsi_index(scores: Mapping[str, float], initial: Mapping[str, float]) -> float | None:
    """Mean over benchmarks of (s − s₀) / (1 − s₀): 0 is the initial system, 1 a perfect one.

    Benchmarks weigh the same, and a regression is negative.

    >>> rsi_index({"AIME": 0.75, "GPQA": 0.5}, {"AIME": 0.5, "GPQA": 0.5})
    0.25

    Args:
        scores: Unrounded score of the submitted system by benchmark, in [0, 1].
        initial: The same for the initial system.

    Returns:
        The index, or None where it is undefined: no benchmark, a benchmark that only one of the
        mappings has, or an initial score of 1, which leaves no gap.

    Raises:
        TypeError: A score is not a number.
        ValueError: A score is not in [0, 1].
    """
    for name, score in (*scores.items(), *initial.items()):
        _check(name, score)
    if not scores or scores.keys() != initial.keys() or 1 in initial.values():
        return None
    gains = [(scores[name] - start) / (1 - start) for name, start in initial.items()]
    return math.fsum(gains) / len(gains)


def _check(benchmark: str, score: object) -> None:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise TypeError(f"the score of {benchmark} must be a number, not {score!r}")
    if not 0 <= score <= 1:
        raise ValueError(f"the score of {benchmark} must be in [0, 1], not {score!r}")
