"""Waiting in tests for what another thread or process does."""

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["eventually"]

_LOOK_S = 0.05


def eventually(condition: Callable[[], Any], what: str, *, patience_s: float = 60.0) -> Any:
    """Wait until something is true; what it was."""
    waiting = threading.Event()
    for _ in range(int(patience_s / _LOOK_S)):
        if found := condition():
            return found
        waiting.wait(_LOOK_S)
    raise AssertionError(what)
