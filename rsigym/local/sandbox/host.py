"""Which user of this machine a sandbox's processes are, and what that user may enter."""

import os
from pathlib import Path

__all__ = ["may_enter", "substitute_for_root"]

_SUBSTITUTE = 65533
"""Debian reserves 65533, so nothing else runs as it; it is below 65536, so it exists in containers
that map the usual range of ids."""


def substitute_for_root() -> int | None:
    """The user that bubblewrap's sandboxes run as, or None for the user of this process.

    Root's sandboxes are not root's: they would own all that is root's, /proc/sys included, and
    the kernel lets root exceed the process limit.
    """
    return _SUBSTITUTE if os.geteuid() == 0 else None


def may_enter(folder: Path, user: int | None) -> bool:
    """Whether `user`, who owns none of them, may pass through all folders above `folder`.

    True for None, the user of this process, who is then told by the system itself.
    """
    existing = [parent for parent in folder.resolve().parents if parent.exists()]
    return user is None or all(parent.stat().st_mode & 0o001 for parent in existing)
