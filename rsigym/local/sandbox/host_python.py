"""This machine's Python, carried into a root file system that has none of its own."""

import json
import re
import subprocess
from functools import cache

from rsigym.local.sandbox.host import substitute_for_root
from rsigym.local.sandbox.interpreter import choose_interpreter

__all__ = ["host_python"]

_INSIDE = "/run/rsigym/python"
_FACTS = """
import glob, json, os, sys
library = os.path.dirname(os.__file__)
extensions = glob.glob(library + "/lib-dynload/*.so")
print(json.dumps([os.path.realpath(sys.executable), library, extensions]))
"""


@cache
def host_python() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What bubblewrap has to show for it, in its words, and the words that run it.

    It comes with this machine's own dynamic loader and libraries, so it needs nothing of the root
    file system, not even the same C library.

    Raises:
        OperatorError: This machine has no Python for sandboxes.
        OSError, subprocess.SubprocessError: What it needs cannot be found out.
    """
    python = choose_interpreter(substitute_for_root()).path
    answer = subprocess.check_output([python, "-I", "-S", "-c", _FACTS], timeout=30)
    program, library, extensions = json.loads(answer)
    linked = subprocess.run(
        ["ldd", program, *extensions], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    found = re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", linked, re.MULTILINE)
    libraries = {path.rpartition("/")[2]: path for path in found}
    loader = next(name for name in libraries if name.startswith("ld-"))
    name = library.rpartition("/")[2]
    binds = ["--ro-bind", program, f"{_INSIDE}/bin/python3"]
    binds += ["--ro-bind", library, f"{_INSIDE}/lib/{name}"]
    for name, path in libraries.items():
        binds += ["--ro-bind", path, f"{_INSIDE}/needed/{name}"]
    words = (f"{_INSIDE}/needed/{loader}", "--library-path", f"{_INSIDE}/needed")
    return tuple(binds), (*words, f"{_INSIDE}/bin/python3")
