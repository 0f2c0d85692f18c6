"""Amounts that an operator gives are finite numbers of dollars, or one clear sentence."""

import pytest

from rsigym.platform.errors import OperatorError
from rsigym.platform.money import to_nano, to_usd


@pytest.mark.parametrize(
    "bad", [-1, -0.01, float("nan"), float("inf"), float("-inf"), "500", True, None, 1e300, [5]]
)
def test_what_is_no_amount_is_refused_by_name(bad: object) -> None:
    with pytest.raises(OperatorError, match="budget_usd must be"):
        to_nano(bad)


@pytest.mark.parametrize(("usd", "nano"), [(0, 0), (5, 5 * 10**9), (0.1, 10**8), (1e-9, 1)])
def test_amounts_are_exact_to_a_nano_dollar(usd: float, nano: int) -> None:
    assert to_nano(usd) == nano
    assert to_usd(nano) == usd
