"""The simulator keeps every promise under every id; the local backend those that it makes."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from rsigym.operations import OPERATIONS
from rsigym.testing import (
    CHECKS,
    Subject,
    check_budget,
    check_determinism,
    check_hostile_actions,
    check_isolation,
    check_observations,
    check_vector,
)
from rsigym.wrappers import DataTrack, DevScoreReward, FlatResearch, HarnessTrack, Offline

SIM = [name for name in gym.registry if name.startswith("RSIGym/") and "-Sim-" in name]

LONG = (check_determinism, check_isolation, check_vector, check_hostile_actions)
"""The checks that take four fifths of the time, though they differ least from id to id."""

SAMPLE = [
    f"RSIGym/{track}{suite}{offline}-Sim-v0"
    for track, suites in (
        ("", ("Local5", "Official5")),
        ("Data-", ("Official5", "Local5")),
        ("Harness-", ("Local5", "Official5")),
        ("Joint-", ("Official5", "Local5")),
    )
    for suite, offline in zip(suites, ("", "-Offline"), strict=True)
]
"""Every track with each suite, every track with internet and without, and each suite too. A suite
has all its benchmarks, with budgets apart."""

WRAPPED: dict[str, Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = {
    "data": DataTrack,
    "harness, offline": lambda env: Offline(HarnessTrack(env)),
    "flat": FlatResearch,
    "shaped, flat": lambda env: DevScoreReward(FlatResearch(env), discount=0.9),
    "flat, shaped": lambda env: FlatResearch(DevScoreReward(env, discount=0.9)),
    "data, flat": lambda env: DataTrack(FlatResearch(env)),
    "limited": lambda env: gym.wrappers.TimeLimit(env, 7),
}

FREE = {name for name, it in OPERATIONS.items() if not it.paid} - {"run.submit", "run.wait"}


def test_there_are_as_many_simulated_ids_as_tracks_benchmarks_and_suites_make() -> None:
    assert len(SIM) == 4 * (5 + 5 + 2) * 2
    assert {*SAMPLE} <= {*SIM}


@pytest.mark.parametrize("env_id", SIM)
def test_every_simulated_id_passes_gymnasiums_checker_and_our_short_ones(env_id: str) -> None:
    check_env(gym.make(env_id).unwrapped)
    for check in CHECKS:
        if check not in LONG:
            check(Subject(lambda: gym.make(env_id), steps=20))


@pytest.mark.parametrize("env_id", SAMPLE)
def test_simulated_ids_of_every_kind_keep_every_promise(env_id: str) -> None:
    for check in CHECKS:
        check(Subject(lambda: gym.make(env_id)))


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_the_simulator_keeps_every_promise_in_our_wrappers(wrapped: str) -> None:
    for check in CHECKS:
        check(Subject(lambda: WRAPPED[wrapped](gym.make("RSIGym/Integers-Sim-v0"))))


@pytest.mark.parametrize("seed", range(2))
def test_the_simulator_is_deterministic_for_long(seed: int) -> None:
    for check in (check_determinism, check_isolation, check_budget, check_observations):
        make = lambda: gym.make("RSIGym/Integers-Sim-v0", budget_usd=1.0)  # noqa: E731
        check(Subject(make, steps=150, seed=seed))


@pytest.mark.parametrize("check", CHECKS, ids=lambda it: it.__name__)
def test_the_local_backend_keeps_what_it_promises(
    check: Callable[[Subject], None], system: dict[str, str], tmp_path: Any
) -> None:
    settings: dict[str, Any] = {
        "initial_system": system,
        "sandbox": "auto",
        "run_dir": str(tmp_path),
    }
    make = lambda: gym.make("RSIGym/Data-Integers-v0", **settings)  # noqa: E731
    check(Subject(make, steps=10, operations=FREE))
