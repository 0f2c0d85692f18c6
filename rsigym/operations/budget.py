"""What is left, and what a call would cost. Free."""

from typing import Annotated

from pydantic import Field

from rsigym.operations.base import Operation
from rsigym.operations.json_value import Json

__all__ = ["BudgetBalance", "BudgetQuote"]


class BudgetBalance(Operation, op="budget.balance"):
    """The budget: total, spent, held and free, in USD, and what was spent by service."""


class BudgetQuote(Operation, op="budget.quote"):
    """What a call would cost, without making it: expected and worst case, and its items."""

    call: Annotated[
        dict[str, Json],
        Field(
            description='The call, {"op": …, "args": {…}}.',
            examples=[{"op": "budget.balance", "args": {}}],
        ),
    ]
