"""The ledger of simulated runs: in memory, gone with its process, and fast."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.ledger import LIMIT, Balance, Entry, Hold, Item, checked, checked_bill

__all__ = ["MemoryLedger"]


@dataclass(slots=True)
class _Account:
    budget: int | None
    spent: int = 0
    held: int = 0
    overdraft: int = 0
    bills: list[tuple[str, Sequence[Item], float]] = field(
        default_factory=list[tuple[str, Sequence[Item], float]]
    )
    by_service: dict[str, int] = field(default_factory=dict[str, int])


class MemoryLedger:
    """A `Ledger` for the threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}
        self._open: dict[str, tuple[_Account, int]] = {}
        self._settled: dict[str, int] = {}

    def open(self, account: str, budget: int | None) -> None:
        if budget is not None:
            checked(budget, "a budget")
        with self._lock:
            self._accounts.setdefault(account, _Account(budget))

    def hold(self, account: str, call_id: str, worst: int) -> bool:
        checked(worst, "a hold")
        with self._lock:
            if call_id in self._open or call_id in self._settled:
                return False
            books = self._account(account)
            limit = LIMIT if books.budget is None else books.budget
            free = limit - books.spent - books.held
            if worst > free:
                raise BudgetExhausted(worst, max(0, free))
            self._open[call_id] = books, worst
            books.held += worst
        return True

    def lower(self, call_id: str, worst: int) -> None:
        checked(worst, "a hold")
        with self._lock:
            if call_id not in self._open:
                self._first_settlement(call_id)
                return
            books, held = self._open[call_id]
            lowered = min(held, worst)
            self._open[call_id] = books, lowered
            books.held -= held - lowered

    def settle(self, call_id: str, items: Sequence[Item]) -> int:
        cost = checked_bill(items)
        with self._lock:
            hold = self._open.pop(call_id, None)
            if hold is None:
                return self._first_settlement(call_id)
            books, held = hold
            self._settled[call_id] = cost
            books.held -= held
            books.spent += cost
            if cost > held:
                books.overdraft += cost - held
            if items:
                books.bills.append((call_id, tuple(items), time.time()))
                for item in items:
                    spent = books.by_service.get(item.service, 0)
                    books.by_service[item.service] = spent + item.amount
        return cost

    def release(self, call_id: str) -> None:
        self.settle(call_id, ())

    def balance(self, account: str) -> Balance:
        with self._lock:
            books = self._account(account)
            return Balance(books.budget, books.spent, books.held)

    def entries(self, account: str) -> list[Entry]:
        with self._lock:
            books = self._accounts.get(account)
            bills = list(books.bills) if books else []
        return [Entry(account, call, item, when) for call, items, when in bills for item in items]

    def spending(self, account: str) -> dict[str, int]:
        with self._lock:
            books = self._accounts.get(account)
            return {**books.by_service} if books else {}

    def open_holds(self, account: str) -> list[Hold]:
        with self._lock:
            books = self._accounts.get(account)
            return [
                Hold(account, call, amount)
                for call, (holder, amount) in sorted(self._open.items(), key=itemgetter(0))
                if holder is books
            ]

    def overdraft(self, account: str) -> int:
        with self._lock:
            return self._account(account).overdraft

    def close(self) -> None:
        """Nothing is open."""

    def _account(self, account: str) -> _Account:
        books = self._accounts.get(account)
        if books is None:
            raise KeyError(f"no account {account!r}")
        return books

    def _first_settlement(self, call_id: str) -> int:
        cost = self._settled.get(call_id)
        if cost is None:
            raise KeyError(f"nothing is held for call {call_id!r}")
        return cost
