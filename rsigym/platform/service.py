"""What the pipeline asks of a service: a price before the work, and the work itself."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from rsigym.operations import Operation
from rsigym.operations.json_value import Json
from rsigym.platform.decision import Found, Occupied
from rsigym.platform.ledger import Item
from rsigym.platform.meter import Meter

__all__ = ["Evidence", "Prepared", "Quote", "Service"]

type Evidence = dict[str, Json]


class Quote(NamedTuple):
    """The price of a call, in nano-USD.

    Attributes:
        expected: What it will probably cost.
        worst: What it can cost at most.
        hold: What must be held before it starts: the worst case of work done in one go, the first
            piece of work that holds step by step.
        items: What the worst case is made of.
    """

    expected: int = 0
    worst: int = 0
    hold: int = 0
    items: tuple[Item, ...] = ()


_NOTHING = Quote()


class Prepared(NamedTuple):
    """A call that was found good, with its price and the work that remains to be done.

    `perform` answers the evidence. It may raise a `Failure`; what it had charged by then stands.

    Attributes:
        found: What the service saw when it looked; permissions are checked against it once more.
    """

    perform: Callable[[Meter], Evidence]
    quote: Quote = _NOTHING
    found: Found | Occupied | None = None


class Service(Protocol):
    """One of the services behind the pipeline."""

    def prepare(self, operation: Operation) -> Prepared:
        """Check a call and price it. Free, and without side effects.

        Raises:
            BadCall: The call, or a file it names, is not valid.
        """
        ...

    def close(self) -> None:
        """Stop what is running and wait until it has; twice is fine."""
        ...
