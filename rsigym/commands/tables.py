"""Tables of plain text, and of Markdown."""

from collections.abc import Sequence

__all__ = ["markdown_table", "printable", "table"]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows with their columns aligned, two spaces apart."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    )


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """The same in Markdown: the first row is the head, and nothing in a cell ends it."""
    head, *body = [[printable(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def printable(text: str) -> str:
    """Text without what could command a terminal: an agent may have named it."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
