"""Passes if a file holds the expected line, to the letter, and nothing else."""

from typing import Any

from reward import decide, text_of


def passes(expected: Any) -> bool:
    return (text_of(expected["file"]) or "").strip() == expected["line"]


decide(passes)
