"""The room of code that is locked up, without what it takes seconds to import."""

import subprocess
import sys
from pathlib import Path

import pytest

import rsigym
from rsigym.local.sandbox import choose_isolation

LOCKED = """
import ctypes, os, sys, time
sys.path.insert(0, sys.argv[1])
from rsigym.local.loss.room import enter_room

enter_room()
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # no signal when the parent ends
if os.getsid(0) != os.getpid():
    os.setsid()
print("in", os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(choose_isolation("auto") == "process", reason="needs user namespaces")
def test_nothing_in_it_outlives_who_made_it() -> None:
    root = str(Path(rsigym.__file__).parents[1])
    words = [sys.executable, "-I", "-c", LOCKED, root]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as outside:
        assert outside.stdout is not None
        assert outside.stdout.readline().startswith(b"in ")
        outside.kill()
        # What is inside holds the pipe for as long as it lives.
        assert outside.communicate(timeout=30)[0] == b""
