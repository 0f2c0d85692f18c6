"""The supervisor as one file: compiled by the Python that will run it, which halves its start."""

import subprocess
import sys
from functools import cache
from pathlib import Path

from rsigym.local.sandbox.interpreter import Interpreter

__all__ = ["supervisor_archive"]

_PACK = """
import io, os, sys, tempfile, zipfile
packed = io.BytesIO()
with zipfile.PyZipFile(packed, "w") as archive, tempfile.TemporaryDirectory() as folder:
    archive.writepy(sys.argv[1])
    main = os.path.join(folder, "__main__.py")
    with open(main, "w") as file:
        file.write("from inside.supervisor import main\\nmain()\\n")
    archive.writepy(main)
sys.stdout.buffer.write(packed.getvalue())
"""


@cache
def supervisor_archive(interpreter: Interpreter) -> bytes:
    """`inside`, packed so that `interpreter` runs it with nothing installed.

    Raises:
        subprocess.CalledProcessError: The interpreter does not compile it.
    """
    # A cache elsewhere, or none: what is compiled must not lie beside the sources of another user.
    words = [interpreter.path, "-I", "-S", "-B", "-c", _PACK, Path(__file__).parent / "inside"]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=sys.stderr).stdout
