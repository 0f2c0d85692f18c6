"""Tables of plain text."""

from collections.abc import Sequence

__all__ = ["printable", "table"]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows with their columns aligned, two spaces apart."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    )


def printable(text: str) -> str:
    """Text without what could command a terminal: an agent may have named it."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
