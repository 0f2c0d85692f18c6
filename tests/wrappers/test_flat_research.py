"""Research over the menu: on the simulator, in every track, and on this machine's own services."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import rsigym
from rsigym.envs.env import RSIGymEnv
from rsigym.flat import FEATURES, Macro
from rsigym.platform.errors import OperatorError
from rsigym.platform.outcome import Status
from rsigym.services.evaluated import Evaluated
from rsigym.wrappers import DevScoreReward, FlatResearch
from tests.envs.conftest import Open

assert rsigym

TRACKS = (None, "Data", "Harness", "Joint")


def make(track: str | None = "Joint", **settings: Any) -> gym.Env[Any, Any]:
    env_id = f"RSIGym/{track}-Integers-v0" if track else "RSIGym/Integers-v0"
    return gym.make(env_id, backend="sim", **settings)


class Priced(gym.Wrapper[Any, Any, Any, Any]):
    """Says that each call cost a dollar."""

    def step(self, action: Any) -> Any:
        *answer, info = self.env.step(action)
        return *answer, {**info, "cost_usd": 1.0}


class Noted(gym.Wrapper[Any, Any, Any, Any]):
    """Notes the calls that reach the env, and what each came to."""

    def __init__(self, env: gym.Env[Any, Any]):
        super().__init__(env)
        self.calls: list[tuple[str, Status]] = []

    def step(self, action: Any) -> Any:
        answer = self.env.step(action)
        self.calls.append((action.op, Status(answer[0]["status"])))
        return answer


def episode(env: gym.Env[Any, Any], seed: int) -> Iterator[tuple[Macro, Any]]:
    """An episode of random macro-actions that are allowed, and what each answered."""
    env.action_space.seed(seed)
    _, info = env.reset(seed=seed)
    over = False
    while not over:
        action = env.action_space.sample(info["action_mask"])
        answer = env.step(action)
        yield Macro(action), answer
        over, info = answer[2] or answer[3], answer[4]


def seen(features: Any) -> dict[str, float]:
    return dict(zip(FEATURES, features.tolist(), strict=True))


def test_it_passes_gymnasiums_checker():
    with closing(FlatResearch(make())) as env:
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("track", TRACKS)
def test_what_is_allowed_is_done_and_costs_no_refused_call(track: str | None):
    noted = Noted(make(track))
    env = FlatResearch(noted)
    for seed in range(10):
        for macro, (features, *_) in episode(env, seed):
            assert not seen(features)["last action refused"], macro
    assert {status for _, status in noted.calls} == {Status.OK}


@pytest.mark.parametrize("track", TRACKS)
def test_what_the_mask_forbids_is_not_done(track: str | None):
    noted = Noted(make(track))
    env = FlatResearch(noted)
    for seed in range(5):
        for _, (before, _, terminated, truncated, info) in episode(env, seed):
            forbidden = int(info["action_mask"].argmin())
            if terminated or truncated or info["action_mask"][forbidden]:
                continue
            noted.calls.clear()
            after, reward, ended, cut, _ = env.step(forbidden)
            names = {name for name, value in seen(after).items() if value != seen(before)[name]}
            assert names <= {"steps taken", "last action refused"}
            assert seen(after)["last action refused"] == 1
            assert (reward, ended, noted.calls) == (0, False, [])
            if cut:
                break


@pytest.mark.parametrize(
    ("track", "closed"),
    [
        ("Data", {Macro.TRAIN_HEAVY, Macro.REPAIR}),
        (
            "Harness",
            {Macro.FEW_RECORDS, Macro.MANY_RECORDS, Macro.TRAIN_LIGHT, Macro.TRAIN_HEAVY},
        ),
        ("Joint", set[Macro]()),
    ],
)
def test_a_track_closes_its_part_of_the_menu(track: str, closed: set[Macro]):
    env = FlatResearch(make(track))
    allowed: set[Macro] = set()
    for seed in range(10):
        for _, (*_, info) in episode(env, seed):
            allowed |= {macro for macro in Macro if info["action_mask"][macro]}
    assert set(Macro) - allowed == closed


def test_the_same_seeds_and_actions_come_to_the_same():
    runs = [[*episode(FlatResearch(make()), 3)] for _ in range(2)]
    for (macro, first), (other, second) in zip(*runs, strict=True):
        assert macro == other
        np.testing.assert_array_equal(first[0], second[0])
        assert first[1:4] == second[1:4]


def test_an_episode_ends_with_its_horizon():
    env = FlatResearch(make(), horizon=3)
    env.reset(seed=0)
    ends = [env.step(Macro.WAIT)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


@pytest.mark.parametrize(
    ("horizon", "script", "ends"),
    [(9, (Macro.EVALUATE_FEW, Macro.SUBMIT), (True, False)), (2, (Macro.WAIT,) * 2, (False, True))],
)
def test_after_the_end_nothing_is_done_and_the_same_is_told(
    horizon: int, script: tuple[Macro, ...], ends: tuple[bool, bool]
):
    noted = Noted(make())
    env = FlatResearch(noted, horizon=horizon)
    env.reset(seed=0)
    *_, last = [env.step(macro) for macro in script]
    noted.calls.clear()
    for macro in Macro:
        features, reward, *after, info = env.step(macro)
        assert (reward, *after) == (0.0, *ends)
        np.testing.assert_array_equal(features, last[0])
        assert info.keys() == last[4].keys()
    assert noted.calls == []


def test_info_has_the_same_keys_in_every_step_and_is_the_callers_own():
    env = FlatResearch(make())
    _, first = env.reset(seed=0)
    for action in (Macro.WAIT, Macro.REPAIR, Macro.SUBMIT, "WAIT"):
        info = env.step(action)[4]
        assert info.keys() == first.keys()
        assert info["legal_ops"] == first["legal_ops"]
        env.step(action)[4]["legal_ops"].clear()


def test_a_step_costs_what_its_calls_do():
    noted = Noted(Priced(make()))
    env = FlatResearch(noted)
    assert env.reset(seed=0)[1]["cost_usd"] == 0
    for macro in (Macro.REPAIR, Macro.SUBMIT, Macro.EVALUATE_FEW):
        noted.calls.clear()
        assert env.step(macro)[4]["cost_usd"] == len(noted.calls)


def test_the_mask_can_be_asked_for_through_other_wrappers():
    env = gym.wrappers.RecordEpisodeStatistics(FlatResearch(make()))
    _, info = env.reset(seed=0)
    asked = env.get_wrapper_attr("action_masks")()
    assert asked.dtype == np.bool_
    np.testing.assert_array_equal(asked, info["action_mask"])


def test_it_is_reset_before_anything_else():
    env = FlatResearch(make())
    for asked in (lambda: env.step(Macro.WAIT), env.action_masks):
        with pytest.raises(gym.error.ResetNeeded, match="reset"):
            asked()


def test_a_submission_ends_it_with_the_reward_and_the_result():
    env = FlatResearch(make())
    env.reset(seed=0)
    for macro in (Macro.REPAIR, Macro.EVALUATE_MANY):
        env.step(macro)
    features, reward, terminated, _, info = env.step(Macro.SUBMIT)
    assert terminated
    assert seen(features)["benchmarks submitted"] == 1
    assert reward == info["result"]["rsi_index"]
    inner = env.unwrapped
    assert isinstance(inner, RSIGymEnv)
    assert inner.episode is not None
    (development,) = inner.episode.jobs.of(Evaluated)
    assert seen(features)["kept: score"] == pytest.approx(development.score["score"])


def test_the_benchmarks_of_a_suite_are_studied_in_turn():
    env = FlatResearch(make(benchmarks=["Integers", "Shell"]))
    env.reset(seed=0)
    for submitted in (0.5, 1.0):
        env.step(Macro.EVALUATE_FEW)
        features, _, terminated, _, info = env.step(Macro.SUBMIT)
        assert seen(features)["benchmarks submitted"] == submitted
        assert terminated == (submitted == 1)
    assert {*info["result"]["benchmarks"]} == {"Integers", "Shell"}


@pytest.mark.parametrize("action", [-1, len(Macro), 2.5, "WAIT", None, True, [1]])
def test_what_is_no_action_is_refused_and_raises_nothing(action: Any):
    env = FlatResearch(make())
    env.reset(seed=0)
    features, reward, *_ = env.step(action)
    assert reward == 0
    assert seen(features)["steps taken"] > 0


def test_a_spec_goes_through_json_with_its_wrappers_and_its_playbook():
    env = FlatResearch(make(), horizon=5)
    playbook = env.get_wrapper_attr("playbook")
    stack = DevScoreReward(FlatResearch(make(), playbook, horizon=5), discount=0.9)
    assert stack.spec is not None
    again = gym.make(EnvSpec.from_json(stack.spec.to_json()))
    assert isinstance(again, DevScoreReward)
    first, second = ([answer[1:4] for _, answer in episode(each, 1)] for each in (stack, again))
    assert first == second


def test_an_env_of_others_is_refused():
    with pytest.raises(OperatorError, match="FlatResearch wraps envs of rsigym"):
        FlatResearch(gym.make("CartPole-v1"))


def test_the_local_backend_asks_for_a_playbook():
    with pytest.raises(OperatorError, match=r"agents/playbook\.py"):
        FlatResearch(gym.make("RSIGym/Joint-Integers-v0"))


def test_the_menu_is_carried_out_on_this_machine(open_env: Open, system: dict[str, str]):
    record = {"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]}
    lines = (json.dumps(record) + "\n") * 8
    with open(f"{system['harness']}/run.sh", encoding="utf-8") as file:
        harness = file.read()
    recipe = {
        "few": lines,
        "many": lines * 2,
        "light": {"batch_size": 4, "max_steps": 1},
        "heavy": {"batch_size": 4, "num_epochs": 2},
        "harnesses": [{"run.sh": harness + "# better\n"}],
        "few_tasks": 1,
        "many_tasks": 2,
        "task_usd": 0.01,
        "held_usd": 0.4,
        "record_usd": 0.001,
    }
    env = FlatResearch(open_env(), {"Integers": recipe})
    env.reset(seed=0)
    script = (
        Macro.FEW_RECORDS,
        Macro.TRAIN_LIGHT,
        Macro.REPAIR,
        Macro.EVALUATE_FEW,
        Macro.WAIT,
        Macro.EVALUATE_MANY,
        Macro.SUBMIT,
    )
    answers = [env.step(macro) for macro in script]
    assert [seen(each[0])["last action refused"] for each in answers] == [0] * len(script)
    features, reward, terminated, _, info = answers[-1]
    assert terminated
    assert reward == info["result"]["rsi_index"]
    assert seen(features)["trainings"] == pytest.approx(0.1)
