"""A small root file system, copied from this machine's programs and the libraries they need."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_TOOLS = ("bash", "cat", "ls", "env", "mkdir", "touch", "id", "readlink")
_PYTHON = Path(os.path.realpath("/usr/bin/python3"))


def make_root(root: Path, *, python: bool) -> Path:
    """Makes one of a few MB, or of some 40 MB with Python; its /app has a file and a link."""
    for name in ("usr/bin", "usr/lib", "usr/lib64", "etc", "app", "var/lib", "opt"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    programs = [Path(os.path.realpath(f"/usr/bin/{tool}")) for tool in _TOOLS]
    for tool, program in zip(_TOOLS, programs, strict=True):
        shutil.copy(program, root / "usr/bin" / tool)
    if python:
        programs += _copy_python(root)
    _copy_libraries(root, programs)
    (root / "etc/os-release").write_text("NAME=Small\n")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\n")
    (root / "app/given.txt").write_text("given\n")
    (root / "app/link").symlink_to("/opt/tool")
    (root / "opt/tool").write_text("of the template\n")
    (root / "usr/bin/tool").symlink_to("/opt/tool")
    return root


def _copy_python(root: Path) -> list[Path]:
    library = Path("/usr/lib") / _PYTHON.name
    unused = shutil.ignore_patterns("test", "__pycache__", "config-*", "idlelib", "lib2to3")
    shutil.copytree(library, root / "usr/lib" / _PYTHON.name, ignore=unused, symlinks=False)
    shutil.copy(_PYTHON, root / "usr/bin" / _PYTHON.name)
    (root / "usr/bin/python3").symlink_to(_PYTHON.name)
    return [_PYTHON, *library.glob("lib-dynload/*.so")]


def _copy_libraries(root: Path, programs: Sequence[Path]) -> None:
    linked = subprocess.check_output(["ldd", *programs], text=True)
    for path in set(re.findall(r"(/\S+) \(0x", linked)):
        target = root / path.removeprefix("/usr/").removeprefix("/").replace("lib", "usr/lib", 1)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
