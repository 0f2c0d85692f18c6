"""Our wrappers on top of one another: every legal stack is made anew from its spec, and copied."""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.envs.registration import EnvSpec

import rsigym
from rsigym.envs.env import RSIGymEnv
from rsigym.flat import Macro
from rsigym.platform.errors import OperatorError
from rsigym.testing import Subject, check_copies, check_spec
from rsigym.testing.trees import difference
from rsigym.wrappers import (
    DataTrack,
    DevScoreReward,
    FlatResearch,
    HarnessTrack,
    JointTrack,
    Offline,
)

assert rsigym

type Env = gym.Env[Any, Any]
type Wrap = Callable[[Env], Env]

ID = "RSIGym/Integers-Sim-v0"


def flat(env: Env) -> Env:
    return FlatResearch(env, horizon=7)


def shaped(env: Env) -> Env:
    return DevScoreReward(env, discount=0.9, scale=2.0)


def built(stack: tuple[Wrap, ...], **settings: Any) -> Env:
    env: Env = gym.make(ID, **settings)
    for wrap in stack:
        env = wrap(env)
    return env


def stacks(*tracks: Wrap) -> Iterator[tuple[Wrap, ...]]:
    """The tracks with some of the others or all, in every order."""
    for size in range(len(tracks), 4 + len(tracks)):
        for stack in permutations((*tracks, Offline, flat, shaped), size):
            if {*tracks} <= {*stack}:
                yield stack


def course(env: Env) -> list[Any]:
    """What some random steps of an episode answer, and what is allowed in it."""
    inner = env.unwrapped
    assert isinstance(inner, RSIGymEnv)
    steps = [[*step] for step in Subject(lambda: env, steps=5).episode(env)]
    env.close()
    return [inner.permissions.model_dump(), *steps]


@pytest.mark.parametrize(
    "tracks",
    [(), (DataTrack,), (HarnessTrack,), (JointTrack,)],
    ids=lambda it: it[0].__name__ if it else "open",
)
def test_every_stack_is_made_anew_from_its_spec_and_lives_through_the_same(
    tracks: tuple[Wrap, ...],
):
    for stack in stacks(*tracks):
        env = built(stack)
        assert env.spec is not None
        again = gym.make(EnvSpec.from_json(env.spec.to_json()))
        assert str(again) == str(env)
        assert difference(course(env), course(again)) is None, env


@pytest.mark.parametrize(
    "stack", [(flat, shaped), (DataTrack, flat, HarnessTrack, shaped, Offline)]
)
def test_a_stack_keeps_what_is_promised_of_specs_and_copies(stack: tuple[Wrap, ...]):
    for check in (check_spec, check_copies):
        check(Subject(lambda: built(stack)))


def test_a_spec_keeps_settings_limits_and_gymnasiums_wrappers():
    env = built((flat, wrappers.RecordEpisodeStatistics), budget_usd=2.0, max_episode_steps=9)
    assert env.spec is not None
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert (str(again), again.spec) == (str(env), env.spec)
    inner = again.unwrapped
    assert isinstance(inner, RSIGymEnv)
    assert inner.experiment.budget_usd == 2.0


CHANGED: list[Wrap] = [
    FlatResearch,
    lambda env: wrappers.FilterObservation(env, ["budget", "scores"]),
    lambda env: wrappers.TransformObservation(env, lambda it: it["budget"], gym.spaces.Box(0, 9)),
    lambda env: wrappers.TransformAction(env, lambda it: it, gym.spaces.Discrete(3)),
]


@pytest.mark.parametrize("changed", CHANGED)
def test_flat_research_goes_below_what_changes_actions_or_observations(changed: Wrap):
    with pytest.raises(OperatorError, match="go above it"):
        FlatResearch(changed(gym.make(ID)))


USUAL: dict[str, Wrap] = {
    "TimeLimit": lambda env: wrappers.TimeLimit(env, 3),
    "RecordEpisodeStatistics": wrappers.RecordEpisodeStatistics,
    "TransformReward": lambda env: wrappers.TransformReward(env, lambda it: 2 * float(it)),
    "ClipReward": lambda env: wrappers.ClipReward(env, -1, 1),
    "NormalizeReward": wrappers.NormalizeReward,
    "Autoreset": wrappers.Autoreset,
    "OrderEnforcing": wrappers.OrderEnforcing,
    "PassiveEnvChecker": wrappers.PassiveEnvChecker,
}
OF_ARRAYS: dict[str, Wrap] = {
    "FlattenObservation": wrappers.FlattenObservation,
    "NormalizeObservation": wrappers.NormalizeObservation,
    "FrameStackObservation": lambda env: wrappers.FrameStackObservation(env, 3),
    "TimeAwareObservation": lambda env: wrappers.TimeAwareObservation(wrappers.TimeLimit(env, 9)),
}


@pytest.mark.parametrize("usual", USUAL)
def test_gymnasiums_wrappers_take_the_env_itself(usual: str):
    env = USUAL[usual](gym.make(ID))
    _, info = env.reset(seed=0)
    keys, truncated = info.keys(), False
    for op in ("workspace.list", "budget.balance", "workspace.list"):
        observation, _, _, truncated, info = env.step({"op": op, "args": {}})
        assert observation in env.observation_space
        assert keys <= info.keys()
    assert truncated is (usual == "TimeLimit")


@pytest.mark.parametrize("usual", [*USUAL, *OF_ARRAYS])
def test_gymnasiums_wrappers_take_flat_research(usual: str):
    env = {**USUAL, **OF_ARRAYS}[usual](FlatResearch(gym.make(ID)))
    _, info = env.reset(seed=0)
    keys, truncated = info.keys(), False
    for macro in (Macro.WAIT, Macro.SUBMIT, Macro.REPAIR):
        observation, _, _, truncated, info = env.step(macro)
        assert observation in env.observation_space
        assert keys <= info.keys()
    assert truncated is (usual == "TimeLimit")


def test_what_an_episode_was_paid_and_how_long_it_took_is_recorded():
    env = wrappers.RecordEpisodeStatistics(FlatResearch(gym.make(ID)))
    env.reset(seed=0)
    env.step(Macro.EVALUATE_FEW)
    _, reward, terminated, _, info = env.step(Macro.SUBMIT)
    assert terminated
    assert (info["episode"]["r"], info["episode"]["l"]) == (pytest.approx(reward), 2)


def test_numbers_of_an_observation_are_one_vector_once_its_evidence_is_left_out():
    kept = ["budget", "scores", "status", "step"]
    env = wrappers.FlattenObservation(wrappers.FilterObservation(gym.make(ID), kept))
    observation, _ = env.reset(seed=0)
    assert observation.shape == (3 + 2 + 6 + 1,)
    assert np.isfinite(observation).all()
