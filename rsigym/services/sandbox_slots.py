"""How many sandboxes a run has, through whichever door they were made."""

import threading
from collections.abc import Callable

from rsigym.platform.decision import Decision, Occupied

__all__ = ["SandboxSlots"]


class SandboxSlots:
    """The sandboxes of one run, counted from before they start. Safe from any thread.

    A slot is taken before anything is waited for, so that creates that run side by side get
    exactly the slots that are free.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0

    @property
    def occupied(self) -> Occupied:
        return Occupied(self._taken)

    def take(self, decide: Callable[[Occupied], Decision]) -> None:
        """Take a slot.

        Raises:
            Refused: There may not be one more.
        """
        with self._lock:
            decide(Occupied(self._taken)).require()
            self._taken += 1

    def give_back(self) -> None:
        with self._lock:
            self._taken -= 1
