"""Which user of this machine a sandbox's processes are, and what that user may enter."""

import itertools
import os
import random
import shutil
from pathlib import Path

from rsigym.platform.errors import OperatorError

__all__ = ["USERS", "as_user", "may_enter", "substitute_for_root", "user_of_its_own"]

USERS = range(65000, 65534)
"""Debian reserves these, so nothing else runs as one; they are below 65536, so they exist in
containers that map the usual range of ids."""

_turns = itertools.count(random.randrange(len(USERS)))  # two servers begin at different ones


def substitute_for_root() -> int | None:
    """One of the users that root's sandboxes run as, or None for the user of this process.

    Root's sandboxes are not root's: they would own all that is root's, /proc/sys included, and
    the kernel lets root exceed the process limit.
    """
    return USERS[0] if os.geteuid() == 0 else None


def user_of_its_own() -> int | None:
    """The user that the next sandbox runs as, or None for the user of this process.

    The kernel counts some things by user: inotify instances, memory of pipes, descriptors under
    way. Sandboxes that share one can take them from each other.
    """
    return USERS[next(_turns) % len(USERS)] if os.geteuid() == 0 else None


def as_user(user: int | None) -> list[str]:
    """The words that run what is appended to them as `user`, with nothing left of root.

    Python's own `user=` would fork: with 2 GB of memory in this process that takes 100 ms, in which
    its loop stands still. Without it the child borrows the memory until it is another program.

    Raises:
        OperatorError: The system lacks setpriv.
    """
    if user is None:
        return []
    setpriv = shutil.which("setpriv", path=os.defpath)
    if setpriv is None:
        raise OperatorError(
            "root's sandboxes run as other users, for which setpriv is missing: install it "
            "(apt install util-linux), or run as an ordinary user"
        )
    return [setpriv, "--reuid", str(user), "--regid", str(user), "--clear-groups", "--"]


def may_enter(folder: Path, user: int | None) -> bool:
    """Whether `user`, who owns none of them, may pass through all folders above `folder`.

    True for None, the user of this process, who is then told by the system itself.
    """
    existing = [parent for parent in folder.resolve().parents if parent.exists()]
    return user is None or all(parent.stat().st_mode & 0o001 for parent in existing)
