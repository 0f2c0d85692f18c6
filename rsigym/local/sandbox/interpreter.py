"""The Python that runs a sandbox's supervisor, and its programs where they have no other."""

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rsigym.local.sandbox.host import may_enter
from rsigym.platform.errors import OperatorError

__all__ = ["CHECK", "Interpreter", "choose_interpreter"]

SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
CHECK = "import ctypes, json, socket, sys; sys.exit(sys.version_info < (3, 10))"
"""What a supervisor's Python has to be able to run."""


@dataclass(frozen=True)
class Interpreter:
    """A Python 3.10 or later.

    Attributes:
        path: The program, on the host and in every sandbox.
        prefix: Its installation, which bubblewrap has to bind read-only; None when it is part of
            the system, which every sandbox has.
    """

    path: Path
    prefix: Path | None


@cache
def choose_interpreter(user: int | None) -> Interpreter:
    """The system's Python, else the installation that runs this process.

    Args:
        user: Who has to be able to read it, or None for the user of this process.

    Raises:
        OperatorError: There is none.
    """
    candidates = [Interpreter(Path(python), None) for python in SYSTEM_PYTHONS]
    prefix = Path(os.path.realpath(sys.base_prefix))
    own = Path(os.path.realpath(sys.executable))
    # Not an installation that is a whole file system or home, with all that lies in it.
    if own.is_relative_to(prefix) and prefix not in (Path("/"), Path.home(), Path("/usr")):
        candidates.append(Interpreter(own, prefix))
    for candidate in candidates:
        readable = candidate.prefix is None or may_enter(candidate.prefix, user)
        if readable and _works(candidate.path):
            return candidate
    raise OperatorError(
        "sandboxes need a Python 3.10 or later that their user may read: "
        f"install python3 as {SYSTEM_PYTHONS[0]}"
    )


def _works(python: Path) -> bool:
    try:
        check = subprocess.run(
            [python, "-I", "-S", "-c", CHECK], check=False, capture_output=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return check.returncode == 0
