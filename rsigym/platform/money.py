"""Money is an integer number of nano-USD; dollars as floats exist at the surface only.

A price of x USD per million tokens is 1000·x nano-USD a token: published prices are whole numbers.
"""

import math

from rsigym.platform.errors import OperatorError

__all__ = ["NANO", "to_nano", "to_usd"]

NANO = 10**9
_MOST_USD = 10**9
"""A billion dollars: what 63 bits of nano-USD hold, with room for sums."""


def to_nano(usd: object, what: str = "budget_usd") -> int:
    """Nano-USD of an amount that an operator gave.

    Raises:
        OperatorError: It is not a finite number between 0 and a billion (`True` and "5" are not).
    """
    if isinstance(usd, bool) or not isinstance(usd, int | float):
        raise OperatorError(f"{what} must be a number of US dollars, not {usd!r}")
    if not math.isfinite(usd) or not 0 <= usd <= _MOST_USD:
        raise OperatorError(f"{what} must be between 0 and {_MOST_USD:,} US dollars, not {usd!r}")
    return round(usd * NANO)


def to_usd(nano: int) -> float:
    """US dollars of an amount of nano-USD."""
    return nano / NANO
