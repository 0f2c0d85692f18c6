"""Which isolation this machine gives."""

from typing import Literal

from rsigym.local.sandbox.bubblewrap import find_bubblewrap
from rsigym.platform.errors import OperatorError

__all__ = ["Isolation", "choose_isolation"]

type Isolation = Literal["bubblewrap", "process"]
"""`bubblewrap`: a user, file system, process table and network of its own. `process`: plain
processes with limits, kept apart from nothing."""


def choose_isolation(wanted: Literal["bubblewrap", "auto", "process"]) -> Isolation:
    """The isolation to use; `auto` is bubblewrap where it works and plain processes elsewhere.

    Raises:
        OperatorError: bubblewrap is wanted and does not work here; the message says what to do.
    """
    if wanted == "process":
        return "process"
    try:
        find_bubblewrap()
    except OperatorError:
        if wanted == "bubblewrap":
            raise
        return "process"
    return "bubblewrap"
