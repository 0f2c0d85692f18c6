"""What a client's path means: E2B starts from the home of the user, the runtime from /app."""

import posixpath

from rsigym.local.sandbox.layout import HOME

__all__ = ["home_path"]


def home_path(given: str) -> str:
    """The absolute path inside: relative ones and `~` begin at the user's home."""
    if given == "~" or given.startswith("~/"):
        given = given[2:]
    return posixpath.normpath(posixpath.join(HOME, given))
