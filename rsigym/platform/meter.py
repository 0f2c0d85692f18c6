"""The meter of one call: what it may charge, and the holds of each further piece of its work."""

import itertools
import threading

from rsigym.platform.ledger import Item, Ledger, total

__all__ = ["Meter"]


class Meter:
    """Money held for one call, and what it has come to.

    Work done in one go charges the meter it was given, and the pipeline settles. Work that goes on
    after the answer (a training run) calls `detach`, settles what it was given by itself, and
    takes a `piece` for each further step, so that nothing is done that was not held before.
    """

    def __init__(self, ledger: Ledger, account: str, call_id: str, *, root: "Meter | None" = None):
        self.account = account
        self.call_id = call_id
        self.detached = False
        self._ledger = ledger
        self._items: list[Item] = []
        self._root = root or self
        self._pieces = itertools.count(1)
        self._lock = threading.Lock()
        self._spent = 0

    @property
    def spent(self) -> int:
        """Nano-USD settled so far by the call and all its pieces."""
        return self._root._spent

    def charge(self, item: Item) -> None:
        """Note what the work has used; it is booked when the meter settles."""
        self._items.append(item)

    def detach(self) -> None:
        """The work goes on after the call's answer and settles by itself."""
        self.detached = True

    def piece(self, worst: int) -> "Meter":
        """Hold `worst` nano-USD for a further piece of the same work.

        Raises:
            BudgetExhausted: It is not there; the work must stop with what it has.
        """
        root = self._root
        piece = Meter(self._ledger, self.account, f"{root.call_id}/{next(root._pieces)}", root=root)
        self._ledger.hold(self.account, piece.call_id, worst)
        return piece

    def settle(self) -> int:
        """Book what was charged and give the rest of the hold back; answers nano-USD.

        Settling with nothing charged releases the hold. Twice is fine.
        """
        cost = self._ledger.settle(self.call_id, self._items)
        with self._root._lock:
            self._root._spent += total(self._items)
            self._items = []
        return cost
