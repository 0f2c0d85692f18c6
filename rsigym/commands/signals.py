"""SIGTERM ends a command as Ctrl-C does: in order."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["end_as_interrupt"]


@contextmanager
def end_as_interrupt() -> Iterator[None]:
    """For the length of a block, SIGTERM raises KeyboardInterrupt in the main thread."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
