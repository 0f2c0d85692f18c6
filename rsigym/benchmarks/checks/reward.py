"""What the programs beside this one share: reading what an agent left, and writing the reward."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["decide", "folder_is_there", "is_gone", "text_of"]

APP = "/app"
REWARD = "/logs/verifier/reward.txt"
MOST_BYTES = 1 << 20


def decide(passes: Callable[[Any], bool]) -> None:
    """The reward is 1 if `passes` says so of what is expected, and 0 however else it ends."""
    Path(REWARD).write_text("0\n")
    expected = json.loads(Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))
    if passes(expected):
        Path(REWARD).write_text("1\n")


def text_of(path: str) -> str | None:
    """The text of a regular file below the working directory; None where there is none.

    A link is none, and a pipe: what counts is what lies there, not where it leads.
    """
    place = _place(path)
    try:
        status = os.lstat(place)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return None
        return Path(place).read_bytes().decode(errors="replace") if _is_real(place) else None
    except OSError:
        return None


def folder_is_there(path: str) -> bool:
    """Whether a folder lies there, and not a link to one."""
    place = _place(path)
    return os.path.isdir(place) and _is_real(place)


def is_gone(path: str) -> bool:
    """Whether nothing lies there."""
    return not os.path.lexists(_place(path))


def _place(path: str) -> str:
    return os.path.join(os.path.realpath(APP), path)


def _is_real(place: str) -> bool:
    return os.path.realpath(place) == place
