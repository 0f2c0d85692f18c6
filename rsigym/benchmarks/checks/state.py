"""Passes if files, folders and gaps are where they should be. Spaces at a line's end are free."""

from typing import Any

from reward import decide, folder_is_there, is_gone, text_of


def passes(expected: Any) -> bool:
    return (
        all(lines(text_of(path)) == lines(text) for path, text in expected["files"].items())
        and all(map(folder_is_there, expected["folders"]))
        and all(map(is_gone, expected["absent"]))
    )


def lines(text: str | None) -> list[str] | None:
    """The lines of a text, without what cannot be seen at their ends or at its own."""
    return None if text is None else [line.strip() for line in text.rstrip().splitlines()]


decide(passes)
