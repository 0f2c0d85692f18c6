"""Who has spent what: accounts, holds ahead of the work, and itemised entries behind it.

A call holds its worst case, works, and settles what it really cost. Holding is refused when
`spent + held` would exceed the budget, so no interleaving of calls can overdraw it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Balance", "Entry", "Hold", "Item", "Ledger", "total"]


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a bill.

    Attributes:
        service: Who did the work, such as "training".
        what: What was used, such as "train" or "prefill".
        quantity: How many units.
        unit: "token" or "millisecond".
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


@dataclass(frozen=True, slots=True)
class Balance:
    """Nano-USD of an account. `total` is None where nothing limits it."""

    total: int | None
    spent: int
    held: int

    @property
    def free(self) -> int | None:
        """What can still be held."""
        return None if self.total is None else max(0, self.total - self.spent - self.held)


class Ledger(Protocol):
    """What every ledger backend does. All methods are safe from any thread."""

    def open(self, account: str, budget: int | None) -> None:
        """Create an account; one that exists keeps what it has."""
        ...

    def hold(self, account: str, call_id: str, worst: int) -> None:
        """Set `worst` nano-USD aside. Holding again under the same id changes nothing.

        Raises:
            BudgetExhausted: More than what is free; nothing was held.
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
