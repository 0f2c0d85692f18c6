"""What becomes of holds that a process left open when it died.

The rule, for each open hold:

- what never began is released: the journal has no `begin` of the call, nor of the call that it is
  a piece of, and `begin` is written before any work;
- what ended but was not settled is settled at the bill in its `end`;
- what began and may have been done is booked at all that it held: nobody can know any more what it
  used, and a bill that is too high is seen, while work for nothing is not.
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rsigym.platform.errors import OperatorError
from rsigym.platform.journal import Journal, read_journal
from rsigym.platform.ledger import Hold, Item, Ledger, checked_bill

__all__ = ["Reconciled", "reconcile"]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What was done about one open hold; `amount` is the nano-USD that were booked."""

    call_id: str
    how: Literal["released", "settled as recorded", "booked at what it held"]
    amount: int


def reconcile(ledger: Ledger, account: str, journal: Path) -> list[Reconciled]:
    """Settle every open hold of an account. Doing it again, or after dying of it, changes nothing.

    No process of the run may be alive: its holds are not left over but at work.

    Args:
        journal: The run folder's `journal.jsonl`. What is done is noted in it first.

    Raises:
        OperatorError: The journal cannot be read and written.
    """
    try:
        with closing(Journal(journal)) as notes:
            told = _Told(journal)
            done: list[Reconciled] = []
            for hold in ledger.open_holds(account):
                found, items = told.about(hold)
                notes.append(
                    {
                        "event": "reconciled",
                        "call": found.call_id,
                        "how": found.how,
                        "amount": found.amount,
                    }
                )
                ledger.settle(hold.call_id, items)
                done.append(found)
            return done
    except OSError as error:
        raise OperatorError(f"the journal {journal} cannot be read and written: {error}") from error


class _Told:
    """What a journal tells about calls."""

    def __init__(self, journal: Path):
        self._begun: dict[str, str] = {}
        self._bills: dict[str, list[Item]] = {}
        for event in read_journal(journal):
            match event:
                case {"event": "begin", "call": str(call), "op": str(op)}:
                    self._begun[call] = op
                case {"event": "end", "call": str(call), "items": list(bill)}:
                    self._note(call, bill)

    def _note(self, call: str, bill: list[dict[str, Any]]) -> None:
        """Keep a bill that the ledger would take; any other counts as none."""
        try:
            items = [Item(**item) for item in bill]
            checked_bill(items)
        except (TypeError, ValueError):
            return
        self._bills[call] = items

    def about(self, hold: Hold) -> tuple[Reconciled, list[Item]]:
        """What is to be done about an open hold, and what is booked for it."""
        call, bill = hold.call_id, self._bills.get(hold.call_id)
        if bill is not None:
            return Reconciled(call, "settled as recorded", checked_bill(bill)), bill
        op = self._op(call)
        if op is None:
            return Reconciled(call, "released", 0), []
        lost = Item(op.partition(".")[0], "lost at a stop", hold.amount, "nano-USD", 1)
        return Reconciled(call, "booked at what it held", hold.amount), [lost]

    def _op(self, call: str) -> str | None:
        """The operation that began the call, or the one that it is a piece of."""
        while call:
            if call in self._begun:
                return self._begun[call]
            call = call.rpartition("/")[0]
        return None
