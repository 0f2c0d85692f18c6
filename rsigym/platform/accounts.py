"""Whose money a call spends: a run's one account, or one account for each benchmark."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rsigym.operations import Operation
from rsigym.platform.decision import Found
from rsigym.platform.errors import BadCall
from rsigym.platform.ledger import Balance, Entry, Hold, Ledger
from rsigym.platform.service import Prepared

__all__ = ["Accounts"]


class Accounts:
    """The accounts of a run, and who pays.

    Args:
        run: The run's name, and its account's: the one that pays, or what the others come to.
        apart: The benchmarks with budgets of their own; none where one budget pays for all.
        submitted: Whether a benchmark has its submission; its own budget is closed then.
    """

    def __init__(
        self,
        run: str,
        apart: Sequence[str] = (),
        submitted: Callable[[str], bool] = lambda benchmark: False,
    ):
        self.run: Final = run
        self.apart: Mapping[str, str] = {name: f"{run}/budget/{name}" for name in apart}
        self._submitted = submitted

    @property
    def names(self) -> tuple[str, ...]:
        """The accounts that hold and pay."""
        return tuple(self.apart.values()) or (self.run,)

    def open(self, ledger: Ledger, budget: int) -> Ledger:
        """Open each with `budget` nano-USD; answers a ledger that knows the run's as their sum."""
        for account in self.names:
            ledger.open(account, budget)
        return _Summed(ledger, self) if self.apart else ledger

    def payer_of(self, operation: Operation, prepared: Prepared) -> str:
        """Who pays a call; see `payer`."""
        if not operation.paid:
            return self.run
        if isinstance(prepared.found, Found):
            return self.payer(prepared.found.benchmark)
        return self.payer(getattr(operation, "benchmark", None))

    def payer(self, benchmark: str | None = None) -> str:
        """Who pays what is done for a benchmark; by default, the first without a submission.

        Raises:
            BadCall: The benchmark has no budget, or its budget is closed.
        """
        if not self.apart:
            return self.run
        if benchmark is None:
            return next((each for each in self.names if not self.is_closed(each)), self.names[-1])
        if benchmark not in self.apart:
            raise BadCall(f"{benchmark!r} has no budget here; those have: {', '.join(self.apart)}")
        if self._submitted(benchmark):
            raise BadCall(
                f"the budget of {benchmark} closed with its submission: name another benchmark"
            )
        return self.apart[benchmark]

    def is_closed(self, account: str) -> bool:
        """Whether it pays nothing any more."""
        return any(self._submitted(name) for name, its in self.apart.items() if its == account)


class _Summed:
    """A ledger in which one account is the sum of others and holds nothing by itself."""

    def __init__(self, ledger: Ledger, accounts: Accounts):
        self._ledger, self._accounts = ledger, accounts
        self.open, self.hold, self.lower = ledger.open, ledger.hold, ledger.lower
        self.settle, self.release, self.close = ledger.settle, ledger.release, ledger.close

    def balance(self, account: str) -> Balance:
        if account != self._accounts.run:
            return self._ledger.balance(account)
        each = {part: self._ledger.balance(part) for part in self._accounts.names}
        return Balance(
            sum(balance.total or 0 for balance in each.values()),
            sum(balance.spent for balance in each.values()),
            sum(balance.held for balance in each.values()),
            sum(
                balance.free or 0
                for part, balance in each.items()
                if self._accounts.is_closed(part)
            ),
        )

    def entries(self, account: str) -> list[Entry]:
        found = [entry for part in self._of(account) for entry in self._ledger.entries(part)]
        return sorted(found, key=lambda entry: entry.time)

    def spending(self, account: str) -> dict[str, int]:
        spent: Counter[str] = Counter()
        for part in self._of(account):
            spent.update(self._ledger.spending(part))
        return dict(spent)

    def open_holds(self, account: str) -> list[Hold]:
        return [hold for part in self._of(account) for hold in self._ledger.open_holds(part)]

    def overdraft(self, account: str) -> int:
        return sum(self._ledger.overdraft(part) for part in self._of(account))

    def _of(self, account: str) -> Sequence[str]:
        return self._accounts.names if account == self._accounts.run else (account,)
