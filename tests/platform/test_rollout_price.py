"""The bill of a frontier model's call: exact, whole, and never above its worst case."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.platform.ledger import total
from rsigym.platform.rollout_price import Rates, RolloutPrice, Usage

NANO = 10**6
"""One nano-USD a token."""

PRICE = RolloutPrice(
    (
        (-1, Rates(10 * NANO, 2 * NANO, 12 * NANO, 50 * NANO, 60 * NANO)),
        (1000, Rates(20 * NANO, 4 * NANO, 24 * NANO, 75 * NANO, 90 * NANO)),
    )
)


def test_each_kind_of_token_is_billed_once_at_its_own_rate() -> None:
    items = PRICE.bill(Usage(prompt=100, cached=60, cache_write=30, completion=20, reasoning=5))
    assert [(item.what, item.quantity, item.unit_price) for item in items] == [
        ("input", 10, 10),
        ("cached input", 60, 2),
        ("cache write", 30, 12),
        ("output", 15, 50),
        ("reasoning", 5, 60),
    ]


@pytest.mark.parametrize(("prompt", "rate"), [(1000, 10), (1001, 20)])
def test_a_long_prompt_makes_the_whole_call_dearer(prompt: int, rate: int) -> None:
    bill = PRICE.bill(Usage(prompt, 0, 0, 1, 0))
    assert [item.unit_price for item in bill] == [rate, 50 if rate == 10 else 75]


def test_what_is_below_a_nano_usd_is_rounded_up_once() -> None:
    rates = Rates(87_500, 8_750, 87_500, 300_001, 300_001)
    bill = RolloutPrice(((-1, rates),)).bill(Usage(3, 1, 0, 1, 0))
    assert [(item.what, item.quantity, item.unit_price) for item in bill] == [
        ("input", 2, 0),
        ("cached input", 1, 0),
        ("output", 1, 0),
        ("fractions", 1, 1),
    ]
    assert total(bill) == 1


RATE = st.integers(0, 10**11)
RATES = st.builds(Rates, RATE, RATE, RATE, RATE, RATE)


@st.composite
def prices(draw: st.DrawFn) -> RolloutPrice:
    thresholds = sorted(draw(st.sets(st.integers(1, 2000), max_size=3)))
    return RolloutPrice(tuple((above, draw(RATES)) for above in (-1, *thresholds)))


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    prompt, completion = draw(st.integers(1, 3000)), draw(st.integers(0, 3000))
    cached = draw(st.integers(0, prompt))
    written = draw(st.integers(0, prompt - cached))
    return Usage(prompt, cached, written, completion, draw(st.integers(0, completion)))


@given(prices(), usages(), st.integers(0, 1000), st.integers(0, 1000))
def test_a_bill_is_whole_exact_and_within_every_worst_case(
    price: RolloutPrice, usage: Usage, more_prompt: int, more_completion: int
) -> None:
    bill = total(price.bill(usage))
    rates = [rates for above, rates in price.tiers if usage.prompt > above][-1]
    exact = Fraction(
        (usage.prompt - usage.cached - usage.cache_write) * rates.input
        + usage.cached * rates.cached_input
        + usage.cache_write * rates.cache_write
        + (usage.completion - usage.reasoning) * rates.output
        + usage.reasoning * rates.reasoning,
        NANO,
    )
    assert exact <= bill < exact + 1
    worst = price.worst(usage.prompt + more_prompt, usage.completion + more_completion)
    assert bill <= total(worst)


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, 0, 0, 2, 0)),
        # Reasoning that the completion does not count, as the total tells.
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "total_tokens": 18,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            Usage(9, 0, 0, 9, 7),
        ),
        # Parts that are larger than what they are parts of.
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 8, "cache_creation_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 99},
            },
            Usage(9, 8, 1, 2, 2),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": None, "prompt_tokens_details": []},
            Usage(9, 0, 0, 0, 0),
        ),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, None),
        ({"prompt_tokens": True}, None),
        ({"prompt_tokens": -5}, None),
        ({"prompt_tokens": "9"}, None),
        (None, None),
        ([], None),
    ],
)
def test_usage_is_read_as_far_as_it_makes_sense(told: object, read: Usage | None) -> None:
    assert Usage.read(told) == read
