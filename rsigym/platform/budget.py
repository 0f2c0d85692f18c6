"""What is left, and what a call would cost: `budget.*`."""

from collections.abc import Callable

from rsigym.operations import Operation
from rsigym.operations.budget import BudgetBalance, BudgetQuote
from rsigym.operations.json_value import Json
from rsigym.platform.accounts import Accounts
from rsigym.platform.ledger import Ledger
from rsigym.platform.money import to_usd
from rsigym.platform.service import Evidence, Prepared

__all__ = ["BudgetService", "spending"]


class BudgetService:
    """Answers from the ledger, and prices calls without making them.

    Args:
        prepare: The pipeline's own validation and pricing, so that a quote cannot differ from it.
    """

    def __init__(
        self,
        ledger: Ledger,
        accounts: Accounts,
        prepare: Callable[[object], tuple[Operation, Prepared]],
    ):
        self._ledger = ledger
        self._accounts = accounts
        self._prepare = prepare

    def prepare(self, operation: Operation) -> Prepared:
        match operation:
            case BudgetBalance():
                return Prepared(lambda _: self._balance())
            case BudgetQuote():
                quoted, priced = self._prepare(operation.call)
                account = self._accounts.payer_of(quoted, priced)
                return Prepared(lambda _: self._quote(priced, account))
            case _:
                raise TypeError(f"not an operation of the budget: {operation.op}")

    def close(self) -> None:
        """Nothing runs."""

    def _balance(self) -> Evidence:
        apart: dict[str, Json] = {
            name: self._balance_of(account) for name, account in self._accounts.apart.items()
        }
        whole = self._balance_of(self._accounts.run)
        return {**whole, "by_benchmark": apart} if apart else whole

    def _balance_of(self, account: str) -> dict[str, Json]:
        balance = self._ledger.balance(account)
        free = 0 if self._accounts.is_closed(account) else balance.free
        return {
            "total_usd": None if balance.total is None else to_usd(balance.total),
            "spent_usd": to_usd(balance.spent),
            "held_usd": to_usd(balance.held),
            "free_usd": None if free is None else to_usd(free),
            "by_service": spending(self._ledger, account),
        }

    def _quote(self, priced: Prepared, account: str) -> Evidence:
        quote, free = priced.quote, self._ledger.balance(account).free
        return {
            "expected_usd": to_usd(quote.expected),
            "worst_usd": to_usd(quote.worst),
            "held_at_start_usd": to_usd(quote.hold),
            "affordable": free is None or quote.hold <= free,
            "fits_whole": free is None or quote.worst <= free,
            "items": [
                {
                    "service": item.service,
                    "what": item.what,
                    "quantity": item.quantity,
                    "unit": item.unit,
                    "unit_usd": to_usd(item.unit_price),
                }
                for item in quote.items
            ],
        }


def spending(ledger: Ledger, account: str) -> dict[str, Json]:
    """US dollars that an account has spent, by service."""
    spent = ledger.spending(account)
    return {service: to_usd(amount) for service, amount in sorted(spent.items())}
