"""The RSI-Index: which share of the gap to a perfect score a system closed."""

import math
from collections.abc import Mapping

__all__ = ["rsi_index", "why_undefined"]


def rsi_index(scores: Mapping[str, float], initial: Mapping[str, float]) -> float | None:
    """Mean over benchmarks of (s − s₀) / (1 − s₀): 0 is the initial system, 1 a perfect one.

    Benchmarks weigh the same, and a regression is negative.

    >>> rsi_index({"AIME": 0.75, "GPQA": 0.5}, {"AIME": 0.5, "GPQA": 0.5})
    0.25

    Args:
        scores: Unrounded score of the submitted system by benchmark, in [0, 1].
        initial: The same for the initial system.

    Returns:
        The index, or None where it is undefined, as `why_undefined` says.

    Raises:
        TypeError: A score is not a number.
        ValueError: A score is not in [0, 1].
    """
    if why_undefined(scores, initial) is not None:
        return None
    gains = [(scores[name] - start) / (1 - start) for name, start in initial.items()]
    return math.fsum(gains) / len(gains)


def why_undefined(scores: Mapping[str, float], initial: Mapping[str, float]) -> str | None:
    """Why there is no index: no benchmark, a score that is missing, an initial score of 1.

    >>> why_undefined({"AIME": 1.0}, {"AIME": 1.0})
    'the initial score of AIME is 1, which leaves no gap to close'

    Returns:
        A clause to follow "there is no index: "; None where the index is defined.

    Raises:
        TypeError, ValueError: As `rsi_index`.
    """
    for name, score in (*scores.items(), *initial.items()):
        _check(name, score)
    if not scores and not initial:
        return "there is no benchmark"
    for which, has, other in (("submitted", scores, initial), ("initial", initial, scores)):
        if missing := other.keys() - has.keys():
            return f"there is no {which} score of {', '.join(sorted(missing))}"
    perfect = [name for name, start in initial.items() if start == 1]
    if perfect:
        return f"the initial score of {', '.join(perfect)} is 1, which leaves no gap to close"
    return None


def _check(benchmark: str, score: object) -> None:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise TypeError(f"the score of {benchmark} must be a number, not {score!r}")
    if not 0 <= score <= 1:
        raise ValueError(f"the score of {benchmark} must be in [0, 1], not {score!r}")
