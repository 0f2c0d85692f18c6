"""What a call came to."""

from enum import IntEnum
from typing import NamedTuple

from rsigym.platform.errors import (
    BadCall,
    BudgetExhausted,
    Failure,
    Refused,
    TimedOut,
)
from rsigym.platform.service import Evidence

__all__ = ["Outcome", "Status", "status_of"]


class Status(IntEnum):
    """How a call ended; the observation's `status`."""

    OK = 0
    INVALID = 1
    REFUSED = 2
    UNAFFORDABLE = 3
    FAILED = 4
    TIMEOUT = 5


class Outcome(NamedTuple):
    """What a call came to.

    Attributes:
        cost: Nano-USD settled by the time of the answer; work that goes on settles more.
        record: The name of the call's record, `records/calls/<record>.json`.
    """

    status: Status
    evidence: Evidence
    cost: int
    record: str


def status_of(failure: Failure) -> Status:
    """How a call ends that failed so."""
    match failure:
        case BadCall():
            return Status.INVALID
        case Refused():
            return Status.REFUSED
        case BudgetExhausted():
            return Status.UNAFFORDABLE
        case TimedOut():
            return Status.TIMEOUT
        case _:
            return Status.FAILED
