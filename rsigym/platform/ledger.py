"""Who has spent what: accounts, holds ahead of the work, and itemised entries behind it.

A call holds its worst case, works, and settles what it really cost. Holding is refused when
`spent + held` would exceed the budget, so no interleaving of calls can overdraw it.

Amounts are whole nano-USD from 0 to `LIMIT`. Every ledger checks them by type and range at each of
its doors: a bool, a float, NaN or a string is a bug of whoever computed it, and raises.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = [
    "LIMIT",
    "Balance",
    "Entry",
    "Hold",
    "Item",
    "Ledger",
    "checked",
    "checked_bill",
    "total",
]

LIMIT = 2**62
"""The largest amount, 4.6 billion USD: two of them still fit a database's 64-bit integer."""


class Item(NamedTuple):
    """One line of a bill.

    Attributes:
        service: Who did the work, such as "training".
        what: What was used, such as "train" or "prefill".
        quantity: How many units.
        unit: "token" or "millisecond"; "nano-USD" where the amount alone is known.
        unit_price: Nano-USD a unit.
    """

    service: str
    what: str
    quantity: int
    unit: str
    unit_price: int

    @property
    def amount(self) -> int:
        """Nano-USD of the whole line."""
        return self.quantity * self.unit_price


@dataclass(frozen=True, slots=True)
class Entry:
    """An item that was charged: to which account, for which call, when (seconds since 1970)."""

    account: str
    call_id: str
    item: Item
    time: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Money set aside for a call that has not settled, in nano-USD."""

    account: str
    call_id: str
    amount: int


class Balance(NamedTuple):
    """Nano-USD of an account. `total` is None where nothing limits it.

    Attributes:
        closed: What is left of it and may not be spent any more.
    """

    total: int | None
    spent: int
    held: int
    closed: int = 0

    @property
    def free(self) -> int | None:
        """What can still be held."""
        if self.total is None:
            return None
        return max(0, self.total - self.spent - self.held - self.closed)


class Ledger(Protocol):
    """What every ledger backend does. All methods are safe from any thread.

    Each is one step: it happens whole or not at all, whatever else happens at the same time. All
    that name one account or call raise `KeyError` where the ledger does not know it (lists and
    `spending` are empty then), and `TypeError` or `ValueError` for what is no amount; nothing has
    changed then.
    """

    def open(self, account: str, budget: int | None) -> None:
        """Create an account; one that exists keeps what it has."""
        ...

    def hold(self, account: str, call_id: str, worst: int) -> bool:
        """Set `worst` nano-USD aside.

        Answers whether this very call did so. False: the id is known, its hold open or ended, and
        nothing has changed. Whoever gets False must not work on it, or work is done that only one
        settlement pays for.

        Raises:
            BudgetExhausted: More than what is free; nothing was held.
        """
        ...

    def lower(self, call_id: str, worst: int) -> None:
        """Hold no more than `worst` nano-USD from now on: the rest is free again.

        Does nothing to a hold that is as low already, or has ended.
        """
        ...

    def settle(self, call_id: str, items: Sequence[Item]) -> int:
        """Book what a call cost and end its hold; answers nano-USD.

        The first settlement of a call stands: settling again answers the same amount. An amount
        above the hold is booked in full and counts as overdraft.
        """
        ...

    def release(self, call_id: str) -> None:
        """End a hold that bought nothing. Does nothing to one that has ended."""
        ...

    def balance(self, account: str) -> Balance:
        """Total, spent and held of an account."""
        ...

    def entries(self, account: str) -> list[Entry]:
        """Every charged item of an account, in order."""
        ...

    def spending(self, account: str) -> dict[str, int]:
        """Nano-USD that an account has spent, by service, in no order."""
        ...

    def open_holds(self, account: str) -> list[Hold]:
        """Holds that have neither settled nor been released."""
        ...

    def overdraft(self, account: str) -> int:
        """Nano-USD by which settlements exceeded their holds: 0, or a worst case was wrong."""
        ...

    def close(self) -> None:
        """Let go of files and connections; twice is fine."""
        ...


def total(items: Sequence[Item]) -> int:
    """Nano-USD of a bill."""
    return sum(item.amount for item in items)


def checked(amount: object, what: str) -> int:
    """The amount itself, if it is one.

    Raises:
        TypeError: It is not an `int` (a `bool` is none).
        ValueError: It is below 0 or above `LIMIT`.
    """
    if type(amount) is not int:
        raise TypeError(f"{what} is a whole number, not {amount!r}")
    if not 0 <= amount <= LIMIT:
        raise ValueError(f"{what} is between 0 and 2**62, not {amount!r}")
    return amount


def checked_bill(items: Sequence[Item]) -> int:
    """Nano-USD of a bill whose every number was checked.

    Raises:
        TypeError, ValueError: As `checked`.
    """
    cost = 0
    for item in items:
        quantity = checked(item.quantity, "a quantity")
        cost += quantity * checked(item.unit_price, "a unit price")
    return checked(cost, "a cost")
