"""Fitting a benchmark's constants to the scores that were measured or published.

Four numbers of each benchmark are fitted: the model's ability, what training adds, how common
execution failures and wrong forms are. A pattern search halves its steps until they are small; the
noise of the worlds is the same in every try, so that the result is one, whoever runs it.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rsigym.sim.constants import Bench, world_data
from rsigym.sim.reference import ALL_REPAIRS, BEST_QUALITY, Worlds
from rsigym.sim.targets import LOCAL_RECORDS, OFFICIAL_RECORDS, Target, targets

__all__ = ["FITTED", "expected_scores", "fit"]

type Array = npt.NDArray[np.float64]

FITTED = ("ability", "gain", "hazard", "form")
_LOW, _HIGH = (-3.0, 0.3, 0.1, 0.0), (3.0, 15.0, 2.5, 0.95)
_BATCH, _SEED = 400, 5
_SMALLEST_STEP = 0.003
_PRIOR = 5e-5
"""Weight of the squares of the constants: where the scores do not decide, small ones are taken."""


def expected_scores(bench: Bench, target: Target, batch: int = _BATCH) -> Array:
    """[initial, better harness, trained, both], as the target's systems would score."""
    worlds = Worlds(bench, batch, _SEED)
    none = (0,) * len(ALL_REPAIRS)
    own = world_data()["laws"]["own_quality"]["value"]
    if target.local:
        trained = both = worlds.trained(quality=own, records=LOCAL_RECORDS, **target.lesson)
    else:
        trained = worlds.trained(quality=own, records=OFFICIAL_RECORDS)
        both = worlds.trained(quality=BEST_QUALITY, records=OFFICIAL_RECORDS)
    return np.array(
        [
            worlds.score(worlds.base, none),
            worlds.score(worlds.base, target.repairs),
            worlds.score(trained, none),
            worlds.score(both, target.repairs),
        ]
    )


def fit(bench: Bench) -> Bench:
    """The benchmark with the constants that come nearest to its target."""
    target = targets()[bench.name]
    known = ~np.isnan(target.scores)

    def miss(values: Array) -> float:
        tried = _with(bench, values)
        off = (expected_scores(tried, target) - target.scores)[known]
        return float((target.weights[known] * off**2).sum() + _PRIOR * (values**2).sum())

    start = np.array([getattr(bench, name) for name in FITTED])
    return _with(bench, _search(miss, start))


def _with(bench: Bench, values: Array) -> Bench:
    bounded = np.clip(values, _LOW, _HIGH)
    named = zip(FITTED, bounded, strict=True)
    return replace(bench, **{name: round(float(value), 3) for name, value in named})


def _search(miss: Callable[[Array], float], start: Array) -> Array:
    best, least = start, miss(start)
    steps = np.array([0.4, 0.4, 0.3, 0.15])
    while steps.max() >= _SMALLEST_STEP:
        moved = False
        for axis in range(len(start)):
            for sign in (1, -1):
                tried = best.copy()
                tried[axis] += sign * steps[axis]
                tried = np.clip(tried, _LOW, _HIGH)
                if (value := miss(tried)) < least:
                    best, least, moved = tried, value, True
        if not moved:
            steps /= 2
    return best
