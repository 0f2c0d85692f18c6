"""Systems and researchers that the simulator is calibrated with: batches of whole episodes.

A researcher has one skill between 0 and 1. It repairs each failure as far as its skill goes, trains
a few candidates on data whose quality follows its skill, measures each on 30 development tasks, and
submits the best. This is a stand-in for the six published research agents, no model of them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rsigym.platform.prices import TokenPrice
from rsigym.sim.constants import Bench, laws
from rsigym.sim.harness import signs
from rsigym.sim.learning import Data, Dose, train
from rsigym.sim.world import (
    Hidden,
    Skill,
    draw_hidden,
    failure_rates,
    initial_skill,
    left_by,
    run_trials,
    solve,
    success,
)

__all__ = ["ALL_REPAIRS", "BEST_QUALITY", "Researched", "Worlds", "spent"]

type Array = npt.NDArray[np.float64]

ALL_REPAIRS = tuple(len(each) for each in signs().values())
BEST_QUALITY = 0.95
CANDIDATES, DEVELOPMENT_TASKS, ATTEMPTS = 3, 30, 3
_RECORDS, _RECORDS_SPREAD = 217, 0.6
"""Median and logarithmic spread of the published submissions' training records."""
_EXPOSURE_SPREAD = 0.6


@dataclass(frozen=True)
class Researched:
    """What researchers came to: the official score of each, (B,), and of the initial system."""

    initial: Array
    submitted: Array


class Worlds:
    """Many episodes' worlds of one benchmark.

    Args:
        batch: How many.
        seed: Of all chance.
    """

    def __init__(self, bench: Bench, batch: int, seed: int):
        self.bench, self.batch = bench, batch
        self.random = np.random.default_rng(seed)
        tasks = bench.n_development + bench.n_official
        self.hidden = draw_hidden(bench, self.random, batch, tasks)
        self.base = initial_skill(self.hidden)

    def trained(
        self,
        *,
        quality: float | Array,
        records: float | Array,
        exposure: float | Array = 1.0,
        diversity: float = 0.9,
        share: float = 1.0,
        folded: float = 0.0,
    ) -> Skill:
        """The initial model after one run at the best rate and rank 16."""
        count = np.broadcast_to(np.asarray(records, np.float64), self.batch)
        travel = exposure * count * diversity * laws().best_passes
        values = (count, diversity, quality, share, folded)
        data = Data(*(np.broadcast_to(np.asarray(each, np.float64), self.batch) for each in values))
        one = np.ones(self.batch)
        noise = self.random.standard_normal(self.batch)
        return train(
            self.bench, self.base, self.hidden, data, Dose(travel * one, one, 16 * one), noise
        )

    def score(self, skill: Skill, repairs: tuple[int, ...] | npt.NDArray[np.int64]) -> float:
        """The mean chance of solving an official task."""
        return float(self._chances(skill, repairs, official=True).mean())

    def measured(self, skill: Skill, repairs: npt.NDArray[np.int64], *, official: bool) -> Array:
        """Drawn scores, (B,): avg@3 on the official tasks, or one attempt at 30 others."""
        rates, solved = self._parts(skill, repairs, official=official)
        if not official:
            solved = solved[:, :DEVELOPMENT_TASKS]
        attempts = ATTEMPTS if official else 1
        return run_trials(self.random, rates, solved, attempts).reward.mean(axis=(1, 2))

    def researched(self, skill: Array) -> Researched:
        """What researchers of that skill, (B,), submit."""
        repairs = self.random.binomial(np.array(ALL_REPAIRS), skill[:, None])
        systems = [self.base, *(self._candidate(skill) for _ in range(CANDIDATES))]
        scores = [self.measured(system, repairs, official=False) for system in systems]
        best = np.argmax(scores, axis=0)
        chosen = Skill(
            np.choose(best, [system.ability for system in systems]),
            np.choose(best, [system.form for system in systems]),
        )
        none = np.zeros_like(repairs)
        return Researched(
            self.measured(self.base, none, official=True),
            self.measured(chosen, repairs, official=True),
        )

    def heavier_is_worse(self) -> float:
        """How often the heavier of two trainings measures worse in development; ties count half."""
        repairs = np.tile(np.array(ALL_REPAIRS), (self.batch, 1))
        lighter = np.exp(_EXPOSURE_SPREAD * self.random.standard_normal(self.batch))
        light, heavy = (
            self.measured(
                self.trained(quality=BEST_QUALITY, records=_RECORDS, exposure=times * lighter),
                repairs,
                official=False,
            )
            for times in (1.0, 3.0)
        )
        return float((heavy < light).mean() + (heavy == light).mean() / 2)

    def _candidate(self, skill: Array) -> Skill:
        random = self.random
        own = laws().own_quality
        return self.trained(
            quality=own + (BEST_QUALITY - own) * skill,
            records=_RECORDS * np.exp(_RECORDS_SPREAD * random.standard_normal(self.batch)),
            exposure=np.exp(_EXPOSURE_SPREAD * random.standard_normal(self.batch)),
        )

    def _chances(
        self, skill: Skill, repairs: tuple[int, ...] | npt.NDArray[np.int64], *, official: bool
    ) -> Array:
        return success(*self._parts(skill, np.atleast_2d(np.array(repairs)), official=official))

    def _parts(
        self, skill: Skill, repairs: npt.NDArray[np.int64], *, official: bool
    ) -> tuple[Array, Array]:
        split = self.bench.n_development
        tasks = slice(split, None) if official else slice(0, split)
        seen = Hidden(
            self.hidden.difficulty[:, tasks], self.hidden.discrimination[:, tasks], *self.hidden[2:]
        )
        rates = failure_rates(self.hidden, left_by(repairs), skill.form)
        return rates, solve(skill.ability, seen, self.bench.chance)


def spent(
    bench: Bench, price: TokenPrice, millisecond: int, *, trials: int, repairs: int, trained: int
) -> float:
    """USD of so many trials with so many repairs, and of training on so many tokens."""
    longer = trials * (1 + laws().repair_cost * repairs)
    nano = longer * (
        bench.seconds * 1000 * millisecond
        + bench.prompt_tokens * price.prefill
        + bench.completion_tokens * price.sample
    )
    return (nano + trained * price.train) / 10**9
