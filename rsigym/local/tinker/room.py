"""How many rows may decode at once."""

from dataclasses import dataclass

__all__ = ["HEADROOM", "Room"]

MAX_ROWS = 64
"""Rows that decode at once."""

HEADROOM = 64
"""Tokens that every row can write after one joins before a row has to be sent back."""


@dataclass(frozen=True)
class Room:
    """Memory for the keys and values of the running rows, all as long as the longest."""

    tokens: int

    def fits(self, rows: int, longest: int) -> bool:
        """A single row always fits: the context bounds it."""
        return rows <= 1 or (rows <= MAX_ROWS and rows * longest <= self.tokens)
