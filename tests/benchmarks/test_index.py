"""The RSI-Index: its definition, its properties, and where it is undefined."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.benchmarks import rsi_index, why_undefined

BENCHMARKS = ["A", "B", "C", "D"]
score = st.floats(0, 1)
gap = st.floats(0, 0.99)
results = st.lists(st.tuples(score, gap), min_size=1, max_size=4).map(
    lambda pairs: (
        {name: s for name, (s, _) in zip(BENCHMARKS, pairs, strict=False)},
        {name: s0 for name, (_, s0) in zip(BENCHMARKS, pairs, strict=False)},
    )
)


def test_it_is_the_mean_share_of_the_gap():
    index = rsi_index({"A": 0.6, "B": 0.3}, {"A": 0.2, "B": 0.4})
    assert index == pytest.approx(((0.6 - 0.2) / 0.8 + (0.3 - 0.4) / 0.6) / 2)


@given(results)
def test_the_initial_system_is_zero_and_a_perfect_one_is_one(
    result: tuple[dict[str, float], dict[str, float]],
):
    _, initial = result
    assert rsi_index(initial, initial) == 0
    assert rsi_index(dict.fromkeys(initial, 1.0), initial) == 1


@given(results)
def test_the_order_of_benchmarks_does_not_matter(
    result: tuple[dict[str, float], dict[str, float]],
):
    scores, initial = result
    backwards = dict(reversed(scores.items())), dict(reversed(initial.items()))
    assert rsi_index(*backwards) == rsi_index(scores, initial)


@given(results, score)
def test_a_better_score_never_lowers_it(
    result: tuple[dict[str, float], dict[str, float]], other: float
):
    scores, initial = result
    better = scores | {"A": max(scores["A"], other)}
    before, after = rsi_index(scores, initial), rsi_index(better, initial)
    assert before is not None
    assert after is not None
    assert after >= before


def test_scores_are_not_rounded():
    assert rsi_index({"A": 1e-9}, {"A": 0.0}) == 1e-9


@pytest.mark.parametrize(
    ("scores", "initial", "reason"),
    [
        ({}, {}, "there is no benchmark"),
        ({"A": 0.5}, {"A": 0.1, "B": 0.1}, "no submitted score of B"),
        ({"A": 0.5, "B": 0.5}, {"A": 0.1}, "no initial score of B"),
        ({}, {"A": 0.1}, "no submitted score of A"),
        ({"A": 1.0}, {"A": 1.0}, "the initial score of A is 1"),
        ({"A": 0.5, "B": 1}, {"A": 0.5, "B": 1}, "the initial score of B is 1"),
    ],
)
def test_it_is_none_for_a_reason_where_it_is_undefined(
    scores: dict[str, float], initial: dict[str, float], reason: str
):
    assert rsi_index(scores, initial) is None
    assert reason in (why_undefined(scores, initial) or "")


@given(results)
def test_where_it_is_defined_there_is_no_reason(result: tuple[dict[str, float], dict[str, float]]):
    assert why_undefined(*result) is None


def test_it_reproduces_the_published_indices():
    data = Path(__file__).with_name("data") / "published.json"
    published = json.loads(data.read_text(encoding="utf-8"))
    initial = published["initial"]
    improved = 0
    for agent, row in published["agents"].items():
        index = rsi_index(row["scores"], initial)
        assert index is not None
        assert round(index, 4) == row["index"], agent
        improved += sum(row["scores"][name] > initial[name] for name in initial)
    assert improved == 29


@pytest.mark.parametrize("score", ["0.5", None, True, [0.5]])
def test_a_score_that_is_no_number_is_a_type_error(score: float):
    with pytest.raises(TypeError, match="the score of A must be a number"):
        rsi_index({"A": score}, {"A": 0.1})


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, math.inf, 50])
def test_a_score_out_of_range_is_a_value_error(score: float):
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        rsi_index({"A": 0.1}, {"A": score})
