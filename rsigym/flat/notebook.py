"""What a researcher who follows the menu knows: the features that it sees, and what it may do next.

One notebook holds a batch of episodes and is written for some of them at a time. `FlatResearch`
keeps one of a single episode beside its env, and `SimVectorEnv` one of them all, so that the two
can differ neither in what a policy sees nor in what they allow.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rsigym.flat.menu import Macro
from rsigym.flat.playbook import Recipe

__all__ = ["FEATURES", "Notebook"]

type Rows = npt.NDArray[np.bool_]
"""Which episodes of the batch are meant: (n,)."""
type Numbers = npt.NDArray[np.floating[Any]]
"""One number an episode: (n,)."""

FEATURES = (
    "benchmarks submitted",
    "steps taken",
    "spent",
    "last action refused",
    "records written",
    "training under way",
    "trainings",
    "evaluations",
    "candidate is what is kept",
    "candidate: training",
    "candidate: harness",
    "candidate: tasks measured",
    "candidate: score",
    "kept: training",
    "kept: harness",
    "kept: tasks measured",
    "kept: score",
)
"""The features by name, in order, each from 0 to 1.

Counts are shares: of the experiment's benchmarks, of the horizon, of the budget, of the larger set
of records, of ten trainings and ten evaluations. Training, also the one under way, is a share of
the heaviest that the menu has, a harness one of the way to the best, and the tasks that a system
was measured on one of two large evaluations. A score is the mean reward over all of those.
"""

(
    _BENCHMARK,
    _STEP,
    _SPENT,
    _REFUSED,
    _RECORDS,
    _PENDING,
    _TRAININGS,
    _EVALUATIONS,
    _SAME,
    _DOSE,
    _LEVEL,
    _TASKS,
    _SCORE,
    _KEPT_DOSE,
    _KEPT_LEVEL,
    _KEPT_TASKS,
    _KEPT_SCORE,
) = range(len(FEATURES))
_CANDIDATE, _KEPT = slice(_DOSE, _SCORE + 1), slice(_KEPT_DOSE, _KEPT_SCORE + 1)
_COUNTED = 10
"""Trainings and evaluations that are told apart."""


class _Shares(NamedTuple):
    """A recipe in the units of the notes: costs are shares of the budget; each is (n,).

    Attributes:
        few: Of the larger set of records.
        light, heavy: Of the heaviest training, with the larger set.
        light_cost, heavy_cost: With the larger set.
        rung: One harness of them all.
        few_tasks, many_tasks: Of two large evaluations.
        few_cost, many_cost: Of an evaluation, with what it needs besides.
    """

    few: Numbers
    light: Numbers
    heavy: Numbers
    light_cost: Numbers
    heavy_cost: Numbers
    rung: Numbers
    few_tasks: Numbers
    many_tasks: Numbers
    few_cost: Numbers
    many_cost: Numbers


def _shares(recipe: Recipe, budget_usd: float) -> tuple[float, ...]:
    epochs = (recipe.light.num_epochs, recipe.heavy.num_epochs)
    once = recipe.many_records * recipe.record_usd / budget_usd
    tasks = (recipe.few_tasks, recipe.many_tasks)
    return (
        recipe.few_records / recipe.many_records,
        *(each / max(epochs) for each in epochs),
        *(each * once for each in epochs),
        1 / len(recipe.harnesses),
        *(each / (2 * recipe.many_tasks) for each in tasks),
        *((each * recipe.task_usd + recipe.held_usd) / budget_usd for each in tasks),
    )


class Notebook:
    """The notes of `n` episodes, each of them a feature already.

    Args:
        recipes: One for each benchmark, in the order in which they are studied.
        permitted: What the permissions leave open, as in `permitted`: (n_benchmarks, len(Macro)).
        budget_usd: What there is to spend, on each benchmark or on all.
        apart: Whether each benchmark has that budget for itself.
        horizon: Macro-actions that an episode has.
    """

    def __init__(
        self,
        recipes: Sequence[Recipe],
        permitted: npt.NDArray[np.bool_],
        budget_usd: float,
        horizon: int,
        n: int,
        *,
        apart: bool = False,
    ):
        # Without a budget everything that costs is masked, whatever it would be a share of.
        self._budget = max(budget_usd, 1e-9)
        self._horizon = horizon
        self._of_benchmark = slice(_SPENT if apart else _REFUSED, None)
        shares = [_shares(recipe, self._budget) for recipe in recipes]
        self._table = np.array(shares, np.float32).T
        self._permitted = permitted.T
        self._notes = np.zeros((len(FEATURES), n), np.float32)
        self._mask = np.ones((len(Macro), n), np.bool_)
        self.benchmark = np.zeros(n, np.int64)
        self._look_up()

    def reset(self, rows: Rows) -> None:
        """Begin new episodes."""
        np.copyto(self._notes, 0, where=rows)
        self._turn_to(np.where(rows, 0, self.benchmark))

    def mask(self) -> npt.NDArray[np.int8]:
        """1 for each macro-action that is not refused now: int8 of shape (n, len(Macro)).

        `WAIT` never is, so that there is always something to choose.
        """
        notes, of, mask = self._notes, self._of, self._mask
        free, records = 1 - notes[_SPENT], notes[_RECORDS]
        idle, measured = notes[_PENDING] == 0, notes[_KEPT_TASKS] > 0
        trainable = idle & (records > 0)
        mask[Macro.FEW_RECORDS] = records != of.few
        mask[Macro.MANY_RECORDS] = records != 1
        mask[Macro.TRAIN_LIGHT] = trainable & (records * of.light_cost <= free)
        mask[Macro.TRAIN_HEAVY] = trainable & (records * of.heavy_cost <= free)
        mask[Macro.REPAIR] = notes[_LEVEL] < 1 - of.rung / 2
        mask[Macro.RETURN] = measured & (notes[_SAME] == 0)
        mask[Macro.EVALUATE_FEW] = of.few_cost <= free
        mask[Macro.EVALUATE_MANY] = of.many_cost <= free
        mask[Macro.WAIT] = True
        mask[Macro.SUBMIT] = measured & idle
        mask &= self._open
        return mask.T.astype(np.int8, order="C")

    def features(self) -> npt.NDArray[np.float32]:
        """What a policy sees: float32 of shape (n, len(FEATURES))."""
        return np.minimum(self._notes.T, 1, order="C")

    def begin(self, actions: npt.NDArray[np.integer[Any]]) -> Rows:
        """Count a step; answers where its action is carried out: where `mask` allowed it last."""
        allowed = self._mask[actions, np.arange(len(actions))]
        self._notes[_STEP] += 1 / self._horizon
        self._notes[_REFUSED] = ~allowed
        return allowed

    @property
    def training(self) -> Rows:
        """Where a training run is under way."""
        return self._notes[_PENDING] > 0

    @property
    def many(self) -> Rows:
        """Where the larger set of records was written last."""
        return self._notes[_RECORDS] == 1

    @property
    def level(self) -> npt.NDArray[np.int64]:
        """How many better harnesses the candidate has gone through."""
        return np.rint(self._notes[_LEVEL] / self._of.rung).astype(np.int64)

    @property
    def kept_level(self) -> npt.NDArray[np.int64]:
        """The same of what is kept."""
        return np.rint(self._notes[_KEPT_LEVEL] / self._of.rung).astype(np.int64)

    @property
    def late(self) -> Rows:
        """Which episodes have no step left."""
        return self._notes[_STEP] > 1 - 0.5 / self._horizon

    def fail(self, rows: Rows, usd: Numbers) -> None:
        """An action that was carried out came to nothing but its cost."""
        np.copyto(self._notes[_REFUSED], 1, where=rows)
        self._notes[_SPENT] += rows * usd / self._budget

    def write(self, few: Rows, many: Rows) -> None:
        """A set of records was written."""
        records = self._notes[_RECORDS]
        np.copyto(records, self._of.few, where=few)
        np.copyto(records, 1, where=many)

    def train(self, light: Rows, heavy: Rows, usd: Numbers) -> None:
        """A training run began, at what it was quoted to cost."""
        notes, of, rows = self._notes, self._of, light | heavy
        dose = notes[_RECORDS] * np.where(heavy, of.heavy, of.light)
        np.copyto(notes[_PENDING], dose, where=rows)
        np.add(notes[_TRAININGS], 1 / _COUNTED, out=notes[_TRAININGS], where=rows)
        notes[_SPENT] += rows * usd / self._budget

    def trained(self, rows: Rows) -> None:
        """The candidate has the checkpoint of the run that was under way."""
        notes = self._notes
        np.copyto(notes[_DOSE], notes[_PENDING], where=rows)
        np.copyto(notes[_PENDING], 0, where=rows)
        self._unmeasured(rows)

    def abandon(self, rows: Rows) -> None:
        """The run that was under way left no checkpoint."""
        np.copyto(self._notes[_PENDING], 0, where=rows)

    def repair(self, rows: Rows) -> None:
        """The candidate has the next harness."""
        self._notes[_LEVEL] += rows * self._of.rung
        self._unmeasured(rows)

    def go_back(self, rows: Rows) -> None:
        """The candidate is what is kept."""
        np.copyto(self._notes[_CANDIDATE], self._notes[_KEPT], where=rows)
        np.copyto(self._notes[_SAME], 1, where=rows)

    def measure(self, few: Rows, many: Rows, score: Numbers, usd: Numbers) -> Rows:
        """The candidate was evaluated; answers where it takes the place of what was kept.

        A system that is measured again has the mean over all tasks that it was measured on.
        """
        notes, of, rows = self._notes, self._of, few | many
        tasks = np.where(many, of.many_tasks, of.few_tasks)
        total = notes[_TASKS] + tasks
        mean = notes[_SCORE] + (score - notes[_SCORE]) * (tasks / total)
        np.copyto(notes[_SCORE], mean, where=rows)
        np.copyto(notes[_TASKS], total, where=rows)
        np.add(notes[_EVALUATIONS], 1 / _COUNTED, out=notes[_EVALUATIONS], where=rows)
        notes[_SPENT] += rows * usd / self._budget
        known, same = notes[_KEPT_TASKS] > 0, notes[_SAME] > 0
        better = rows & (same | ~known | (notes[_SCORE] >= notes[_KEPT_SCORE]))
        np.copyto(notes[_KEPT], notes[_CANDIDATE], where=better)
        np.copyto(notes[_SAME], 1, where=better)
        return better

    def submit(self, rows: Rows) -> Rows:
        """A benchmark's system was submitted; answers where that was the last one."""
        self._notes[_BENCHMARK] += rows / self._table.shape[1]
        done = rows & (self.benchmark == self._table.shape[1] - 1)
        following = rows & ~done
        np.copyto(self._notes[self._of_benchmark], 0, where=following)
        self._turn_to(self.benchmark + following)
        return done

    def _turn_to(self, benchmark: npt.NDArray[np.int64]) -> None:
        """Have these benchmarks, by index, studied; (n,)."""
        if (benchmark != self.benchmark).any():
            self.benchmark = benchmark
            self._look_up()

    def _look_up(self) -> None:
        benchmark = self.benchmark
        self._of = _Shares(*self._table[:, benchmark])
        self._open = self._permitted[:, benchmark]

    def _unmeasured(self, rows: Rows) -> None:
        np.copyto(self._notes[_TASKS : _SCORE + 1], 0, where=rows)
        np.copyto(self._notes[_SAME], 0, where=rows)
