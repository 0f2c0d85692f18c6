"""The Python that runs a sandbox's supervisor, and its programs where they have no other."""

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rsigym.platform.errors import OperatorError

__all__ = ["Interpreter", "choose_interpreter"]

SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
PREFIX_INSIDE = "/opt/python"
_CHECK = "import ctypes, json, socket, sys; sys.exit(sys.version_info < (3, 10))"


@dataclass(frozen=True)
class Interpreter:
    """A Python 3.10 or later.

    Attributes:
        path: The program on this machine.
        prefix: Its installation, which a sandbox binds read-only at `PREFIX_INSIDE`; None when it
            is part of the system, which every sandbox has.
    """

    path: Path
    prefix: Path | None

    @property
    def inside(self) -> str:
        """The program's path in a sandbox with a file system of its own."""
        if self.prefix is None:
            return str(self.path)
        return f"{PREFIX_INSIDE}/{self.path.relative_to(self.prefix)}"


@cache
def choose_interpreter() -> Interpreter:
    """The system's Python, else the installation that runs this process.

    Raises:
        OperatorError: Neither can be used.
    """
    prefix = Path(os.path.realpath(sys.base_prefix))
    own = Path(os.path.realpath(sys.executable))
    candidates = [Interpreter(Path(python), None) for python in SYSTEM_PYTHONS]
    if own.is_relative_to(prefix) and prefix not in (Path("/"), Path("/usr"), Path.home()):
        candidates.append(Interpreter(own, prefix))
    for candidate in candidates:
        if _works(candidate.path):
            return candidate
    raise OperatorError(
        "sandboxes need a Python 3.10 or later that can be shown to them read-only: "
        f"install python3 as {SYSTEM_PYTHONS[0]}"
    )


def _works(python: Path) -> bool:
    try:
        check = subprocess.run(
            [python, "-I", "-S", "-c", _CHECK], check=False, capture_output=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return check.returncode == 0
