"""The tab of one try: what its pieces of work have used, booked at its end if the try counts."""

from typing import override

from rsigym.platform.ledger import total
from rsigym.platform.meter import Meter

__all__ = ["Tab"]


class Tab:
    """Pieces of work that are paid together, or not at all.

    Each piece is held at its worst before it is done, and at its real cost once it is settled, so
    that a tab can always be paid. A process that dies leaves these holds, and they are booked as
    they are.

    Args:
        meter: Of the work that the pieces are part of.
    """

    def __init__(self, meter: Meter):
        self._meter = meter
        self._pieces: list[_OnTab] = []

    def piece(self, worst: int) -> Meter:
        """Hold `worst` nano-USD for a further piece.

        Raises:
            BudgetExhausted: It is not there.
        """
        piece = self._meter.piece_of(_OnTab, worst)
        self._pieces.append(piece)
        return piece

    def settle(self) -> None:
        """Book what every piece has used: the try counts."""
        for piece in self._pieces:
            piece.book()

    def waive(self) -> None:
        """Book nothing: the try was lost, and not by whoever pays."""
        for piece in self._pieces:
            piece.waive()


class _OnTab(Meter):
    """A piece that, settled, goes on holding what it has cost."""

    @override
    def settle(self) -> int:
        cost = total(self._items)
        self._ledger.lower(self.call_id, cost)
        return cost

    def book(self) -> None:
        super().settle()

    def waive(self) -> None:
        self._items.clear()
        super().settle()
