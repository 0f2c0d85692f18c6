"""What the simulator is calibrated to: `data/targets.json`, with the source of each number."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rsigym.sim.reference import ALL_REPAIRS

__all__ = ["LOCAL_RECORDS", "OFFICIAL_RECORDS", "Target", "solved", "target_data", "targets"]

LOCAL_RECORDS, OFFICIAL_RECORDS = 280, 385
"""Training records of the measured local systems, and of the best published agent (median)."""


@dataclass(frozen=True)
class Target:
    """The scores of four systems of one benchmark.

    Attributes:
        local: Whether they were measured here, with data that an agent writes by itself; published
            ones were reached with every repair, and the best of data in the last system.
        scores: [initial, better harness, trained, both], NaN where nobody knows.
        tasks: What each was measured on; NaN where that was not here.
        weights: Of each in the fit: the initial score is known best, and a local one the better the
            more tasks it was measured on.
        repairs: Of the better harness, by failure.
        lesson: What is known of the training: `diversity`, `share` and `exposure`, as
            `Worlds.trained` takes them.
    """

    local: bool
    scores: npt.NDArray[np.float64]
    tasks: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    repairs: tuple[int, ...]
    lesson: Mapping[str, float]


@cache
def target_data() -> dict[str, Any]:
    """The data file itself."""
    return json.loads(files("rsigym.sim").joinpath("data/targets.json").read_text(encoding="utf-8"))


@cache
def targets() -> Mapping[str, Target]:
    """The target of every benchmark."""
    local, official = target_data()["local"], target_data()["official"]
    weights = np.array([3.0, 1.0, 1.0, 2.0])
    found: dict[str, Target] = {}
    for name, counts in local["solved"].items():
        right, of = np.array(counts, np.float64).T
        repairs, lesson = tuple(local["repairs"][name]), local["lessons"][name]
        found[name] = Target(True, right / of, of, weights * of / of.max(), repairs, lesson)
    for place, name in enumerate(official["benchmarks"]):
        initial = official["initial"][name]
        best = max(each["scores"][place] for each in official["joint_500_usd"].values())
        # Measured on 30 tasks, where the initial system scored otherwise than officially.
        low, high = official["harness_only"].get(name, (np.nan, np.nan))
        data = official["data_only"].get(name, (np.nan, np.nan))[1]
        scores = np.array([initial, initial * high / low, data, best])
        sharp = weights * np.array([10 if initial < 0.05 else 1, 1, 1, 1])
        found[name] = Target(False, scores, np.full(4, np.nan), sharp, ALL_REPAIRS, {})
    return found


def solved(measured: Iterable[Path]) -> dict[tuple[str, str], tuple[int, int]]:
    """(solved, of) by benchmark and system, from files that agents/measure_benchmarks.py wrote.

    Where the same tasks were measured again, the last measurement counts.
    """
    pieces: dict[tuple[str, str, int, int], list[float]] = {}
    for file in measured:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            piece = row["benchmark"], row["system"], row["seed"], row["first"]
            pieces[piece] = row["rewards"]
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for (name, system, *_), rewards in pieces.items():
        right, of = found.get((name, system), (0, 0))
        found[name, system] = right + int(sum(rewards)), of + len(rewards)
    return found
