"""Scores from trials: what counts, what is missing, and how wide the interval is."""

import itertools
import json
import math
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.benchmarks import score
from rsigym.benchmarks.scoring import pass_at


@dataclass(frozen=True)
class Error:
    side: str


@dataclass(frozen=True)
class Trial:
    task: str
    attempt: int
    reward: float | None = None
    error: Error | None = None
    lost: bool = False


@st.composite
def evaluations(draw: st.DrawFn) -> tuple[list[Trial], int, int]:
    """Some trials of an evaluation, in any order, with its numbers of tasks and attempts."""
    n_tasks, n_attempts = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    places = list(itertools.product(range(n_tasks), range(n_attempts)))
    chosen = draw(st.lists(st.sampled_from(places), unique=True))
    rewards = st.none() | st.floats(0, 1) | st.just(1.0)
    errors = st.none() | st.builds(Error, st.sampled_from(["harness", "verifier", "sandbox"]))
    return [Trial(f"t{t}", a, draw(rewards), draw(errors)) for t, a in chosen], n_tasks, n_attempts


@given(evaluations())
def test_every_expected_trial_counts_the_same_and_a_lost_one_as_zero(
    evaluation: tuple[list[Trial], int, int],
):
    trials, n_tasks, n_attempts = evaluation
    result = score(trials, n_tasks, n_attempts)
    given_rewards = [trial.reward for trial in trials if trial.reward is not None]
    assert result.score == pytest.approx(sum(given_rewards) / (n_tasks * n_attempts))
    assert result.valid == len(given_rewards)
    assert result.valid + result.missing == result.expected == n_tasks * n_attempts
    assert result.errored == sum(trial.error is not None for trial in trials)
    assert result.errored == sum(result.errored_by_side.values())
    assert result.complete == (result.missing == 0)


@given(evaluations(), st.randoms())
def test_the_order_of_trials_does_not_matter(
    evaluation: tuple[list[Trial], int, int], random: Random
):
    trials, n_tasks, n_attempts = evaluation
    shuffled = random.sample(trials, len(trials))
    assert score(shuffled, n_tasks, n_attempts) == score(trials, n_tasks, n_attempts)


@given(evaluations(), st.randoms())
def test_which_attempt_came_first_does_not_matter(
    evaluation: tuple[list[Trial], int, int], random: Random
):
    trials, n_tasks, n_attempts = evaluation
    numbers = {trial.task: random.sample(range(n_attempts), n_attempts) for trial in trials}
    renumbered = [replace(trial, attempt=numbers[trial.task][trial.attempt]) for trial in trials]
    one, other = (score(each, n_tasks, n_attempts) for each in (trials, renumbered))
    assert one.score == pytest.approx(other.score)
    assert one.pass_at == other.pass_at


@given(evaluations(), st.data())
def test_a_better_reward_never_lowers_a_score(
    evaluation: tuple[list[Trial], int, int], data: st.DataObject
):
    trials, n_tasks, n_attempts = evaluation
    better = [
        replace(trial, reward=data.draw(st.floats(trial.reward or 0.0, 1))) for trial in trials
    ]
    before, after = (score(each, n_tasks, n_attempts) for each in (trials, better))
    assert after.score >= before.score - 1e-12
    assert all(after.pass_at[k] >= rate for k, rate in before.pass_at.items())


@given(evaluations())
def test_the_interval_holds_the_score_and_pass_at_k_rises_with_k(
    evaluation: tuple[list[Trial], int, int],
):
    result = score(*evaluation)
    low, high = result.interval
    assert -1e-9 <= low <= result.score + 1e-9
    assert result.score - 1e-9 <= high <= 1 + 1e-9
    rates = list(result.pass_at.values())
    assert rates == sorted(rates)


def test_a_reward_counts_although_the_harness_failed():
    result = score([Trial("a", 0, 1.0, Error("harness"))], 1, 1)
    assert (result.score, result.valid, result.errored, result.missing) == (1.0, 1, 1, 0)


def test_of_three_attempts_a_lost_one_is_missing_and_said_to_be_lost():
    lost = Trial("a", 2, error=Error("sandbox"), lost=True)
    result = score([Trial("a", 0, 1), Trial("a", 1, 1, Error("harness")), lost], 1, 3)
    assert result.score == pytest.approx(2 / 3)
    assert (result.expected, result.valid, result.missing, result.lost) == (3, 2, 1, 1)
    assert (result.errored, result.errored_by_side) == (2, {"harness": 1, "sandbox": 1})
    assert not result.complete


def test_trials_that_never_ran_are_missing_and_nobody_is_blamed():
    result = score([Trial("a", 0, 1)], 1, 3)
    assert (result.missing, result.errored_by_side, result.lost) == (2, {}, 0)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -0.1, 1.1])
def test_what_is_no_reward_is_refused(reward: float):
    with pytest.raises(ValueError, match="the reward of a must be in"):
        score([Trial("a", 0, reward)], 1, 1)


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_k_is_the_share_of_draws_with_a_success(attempts: tuple[int, int]):
    n, passed = attempts
    outcomes = [True] * passed + [False] * (n - passed)
    for k in range(1, n + 1):
        draws = [any(draw) for draw in itertools.combinations(outcomes, k)]
        assert pass_at(k, n, passed) == pytest.approx(sum(draws) / len(draws))


@pytest.mark.parametrize(("k", "n", "passed"), [(0, 3, 1), (4, 3, 1), (1, 3, 4), (1, 3, -1)])
def test_an_impossible_pass_at_k_is_refused(k: int, n: int, passed: int):
    with pytest.raises(ValueError, match="pass@"):
        pass_at(k, n, passed)


def test_the_interval_is_over_tasks_and_not_over_attempts():
    apart = [Trial(f"t{t}", a, float(t % 2)) for t in range(10) for a in range(20)]
    low, high = score(apart, 10, 20).interval
    assert high - low > 0.4


def test_an_interval_over_equal_tasks_is_a_point():
    assert score([Trial(f"t{t}", 0, 1) for t in range(5)], 5, 1).interval == (1, 1)


@pytest.mark.parametrize(
    ("trials", "n_tasks", "n_attempts"),
    [
        ([Trial("a", 0, 1), Trial("a", 0, 1)], 1, 2),
        ([Trial("a", 2, 1)], 1, 2),
        ([Trial("a", -1, 1)], 1, 2),
        ([Trial("a", 0, 1), Trial("b", 0, 1)], 1, 2),
        ([], 0, 1),
    ],
)
def test_trials_that_do_not_belong_are_refused(trials: list[Trial], n_tasks: int, n_attempts: int):
    with pytest.raises(ValueError, match=r"one too many|were expected|nothing to score"):
        score(trials, n_tasks, n_attempts)


@given(evaluations())
def test_a_score_survives_json(evaluation: tuple[list[Trial], int, int]):
    whole = score(*evaluation)
    travelled = json.loads(json.dumps(whole.to_json()))
    for name in ("score", "expected", "valid", "errored", "errored_by_side", "missing", "lost"):
        assert travelled[name] == getattr(whole, name)
    assert travelled["complete"] == whole.complete
    assert travelled["interval"] == [*whole.interval]
