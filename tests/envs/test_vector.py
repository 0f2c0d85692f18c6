"""Vectors of simulated envs, by `gymnasium.make_vec` and by `rsigym.make_vec`, in every mode."""

from collections.abc import Callable
from contextlib import closing
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

import rsigym
from rsigym.envs.sim_vector import SimVectorEnv
from rsigym.flat import FEATURES, Macro
from rsigym.platform.errors import OperatorError
from rsigym.testing.trees import difference
from rsigym.wrappers import FlatResearch

ID = "RSIGym/Joint-Integers-Sim-v0"
N = 2
SUBMITS = (Macro.EVALUATE_FEW, Macro.SUBMIT, Macro.WAIT, Macro.WAIT)

type Vector = VectorEnv[Any, Any, Any]


def listed(envs: Vector) -> list[Any]:
    """What a listing of each workspace answers, after a reset."""
    with closing(envs):
        return [envs.reset(seed=3), envs.step(({"op": "workspace.list", "args": {}},) * N)]


def researched(envs: Vector) -> list[tuple[Any, ...]]:
    """Some steps of the menu: the second one submits."""
    with closing(envs):
        envs.reset(seed=3)
        return [envs.step(np.full(N, macro)) for macro in SUBMITS]


MODES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "sync": (SyncVectorEnv, {"vectorization_mode": "sync"}),
    "async": (
        AsyncVectorEnv,
        {"vectorization_mode": "async", "vector_kwargs": {"shared_memory": False}},
    ),
    "spawn": (
        AsyncVectorEnv,
        {
            "vectorization_mode": "async",
            "vector_kwargs": {"shared_memory": False, "context": "spawn"},
        },
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_gymnasiums_vectors_answer_calls_alike_in_every_mode(mode: str):
    kind, settings = MODES[mode]
    envs = gym.make_vec(ID, N, **settings)
    assert type(envs) is kind
    assert difference(listed(rsigym.make_vec(ID, N)), listed(envs)) is None


@pytest.mark.parametrize("vector_kwargs", [None, {"context": "spawn"}])
def test_rsigyms_own_leaves_processes_their_memory(vector_kwargs: dict[str, Any] | None):
    envs = rsigym.make_vec(ID, N, "async", vector_kwargs)
    assert type(envs) is AsyncVectorEnv
    assert difference(listed(rsigym.make_vec(ID, N)), listed(envs)) is None


@pytest.mark.parametrize("settings", [{"vectorization_mode": "vector_entry_point"}, {}], ids=str)
@pytest.mark.parametrize("env_id", [ID, f"rsigym:{ID}"])
def test_gymnasium_finds_the_batch(env_id: str, settings: dict[str, Any]):
    envs = gym.make_vec(env_id, N, **settings)
    assert isinstance(envs, SimVectorEnv)
    assert envs.reset(seed=0)[0] in envs.observation_space
    assert envs.action_space.sample() in envs.action_space


MENUS: dict[str, Callable[[AutoresetMode], Vector]] = {
    "gymnasium, sync": lambda mode: gym.make_vec(
        ID, N, "sync", {"autoreset_mode": mode}, [FlatResearch]
    ),
    "gymnasium, async": lambda mode: gym.make_vec(
        ID, N, "async", {"autoreset_mode": mode}, [FlatResearch]
    ),
    "gymnasium, batch": lambda mode: gym.make_vec(ID, N, "vector_entry_point", autoreset_mode=mode),
    "rsigym, sync": lambda mode: rsigym.make_vec(
        ID, N, wrappers=[FlatResearch], autoreset_mode=mode
    ),
    "rsigym, batch": lambda mode: rsigym.make_vec(
        ID, N, "vector_entry_point", autoreset_mode=mode.value
    ),
}


@pytest.mark.parametrize("menu", MENUS)
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_episode_is_followed_by_the_next_as_gymnasium_names_it(menu: str, mode: AutoresetMode):
    envs = MENUS[menu](mode)
    assert envs.metadata["autoreset_mode"] is mode
    _, ended, after, last = researched(envs)
    assert ended[2].tolist() == [True] * N
    first = {AutoresetMode.NEXT_STEP: after, AutoresetMode.SAME_STEP: ended}[mode]
    assert not first[0].any(), "a new episode begins with nothing"
    assert not (after[2] | after[3] | last[2] | last[3]).any()
    assert ("final_obs" in ended[4]) is (mode is AutoresetMode.SAME_STEP)
    if mode is AutoresetMode.SAME_STEP:
        shown, masks = ended[4]["final_obs"], ended[4]["final_info"]["action_mask"]
        assert [each[FEATURES.index("benchmarks submitted")] for each in shown] == [1, 1]
        assert masks.shape == (N, len(Macro))
        assert ended[4]["_final_obs"].tolist() == ended[4]["_final_info"].tolist() == [True] * N


@pytest.mark.parametrize("menu", MENUS)
def test_without_autoreset_the_ended_are_reset_by_the_mask(menu: str):
    with closing(MENUS[menu](AutoresetMode.DISABLED)) as envs:
        envs.reset(seed=3)
        envs.step(np.full(N, Macro.EVALUATE_FEW))
        features, _, terminated, *_ = envs.step(np.array([Macro.WAIT, Macro.SUBMIT]))
        assert terminated.tolist() == [False, True]
        again, _ = envs.reset(options={"reset_mask": np.array([False, True])})
        np.testing.assert_array_equal(again[0], features[0])
        assert not again[1].any()
        envs.step(np.full(N, Macro.WAIT))


def test_rsigyms_own_opens_no_episode_that_was_not_asked_for():
    for envs in (rsigym.make_vec(ID, N), rsigym.make_vec(ID, N, "vector_entry_point")):
        assert envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED


def test_what_gymnasiums_own_vector_is_told_comes_first():
    envs = rsigym.make_vec(ID, N, vector_kwargs={"autoreset_mode": "SameStep"})
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"budget_usd": 2.0, "autoreset_mode": "NextStep"},
        {"vectorization_mode": "vector_entry_point", "autoreset_mode": "SameStep", "horizon": 5},
    ],
    ids=str,
)
def test_a_vector_is_made_anew_from_its_spec_through_json(settings: dict[str, Any]):
    envs = rsigym.make_vec(ID, N, **settings)
    assert envs.spec is not None
    again = gym.make_vec(EnvSpec.from_json(envs.spec.to_json()))
    assert (type(again), again.num_envs, again.metadata) == (type(envs), N, envs.metadata)
    assert again.action_space == envs.action_space
    assert again.spec == envs.spec


def test_infos_have_the_same_keys_in_every_step():
    with closing(gym.make_vec(ID, N, "sync", wrappers=[FlatResearch])) as envs:
        _, infos = envs.reset(seed=0)
        # Waiting for nothing makes no call, and a submission of nothing is masked.
        for macro in (Macro.WAIT, Macro.REPAIR, Macro.SUBMIT, Macro.EVALUATE_FEW):
            assert envs.step(np.array([macro, Macro.WAIT]))[4].keys() == infos.keys()


OF_VECTORS = [
    gym.wrappers.vector.RecordEpisodeStatistics,
    gym.wrappers.vector.NormalizeReward,
    gym.wrappers.vector.DictInfoToList,
]
OF_OBSERVATIONS = [
    gym.wrappers.vector.NormalizeObservation,
    gym.wrappers.vector.FlattenObservation,
]
"""Gymnasium has these for vectors that do not reset in the same step."""


@pytest.mark.parametrize(
    ("wrapped", "mode"),
    [
        *product(OF_VECTORS, ["NextStep", "SameStep"]),
        *product(OF_OBSERVATIONS, ["NextStep"]),
    ],
)
def test_gymnasiums_vector_wrappers_take_the_batch(wrapped: Callable[[Vector], Any], mode: str):
    steps = researched(wrapped(gym.make_vec(ID, N, "vector_entry_point", autoreset_mode=mode)))
    assert steps[1][2].all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"render_mode": "ansi"}, "render_mode is of a single env"),
        ({"run_dir": "runs"}, "run_dir is of a single env"),
        ({"max_episode_steps": 5}, "horizon"),
        ({"budget": 5}, "budget"),
    ],
    ids=str,
)
def test_what_is_no_setting_of_a_batch_is_said(settings: dict[str, Any], said: str):
    with pytest.raises(OperatorError, match=said):
        gym.make_vec(ID, N, "vector_entry_point", **settings)


def test_calls_are_none_of_a_batch():
    envs = gym.make_vec(ID, N)
    envs.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="macro-actions"):
        envs.step(({"op": "workspace.list", "args": {}},) * N)


@pytest.mark.parametrize("mode", [*AutoresetMode])
def test_a_batch_is_reset_before_it_is_stepped(mode: AutoresetMode):
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        gym.make_vec(ID, N, "vector_entry_point", autoreset_mode=mode).step(np.full(N, 0))
