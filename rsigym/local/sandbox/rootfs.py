"""How a system is shown to a sandbox, this machine's or a template's, in bubblewrap's words."""

import os
from pathlib import Path

from rsigym.local.sandbox.layout import FOLDERS

__all__ = ["show_host", "show_root"]

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "localtime", "ssl/certs")

_TAKEN = {name.partition("/")[0] for name in FOLDERS} | {"proc", "dev", "sys", "run"}
_TAKEN_BELOW = {
    "etc": {"passwd", "group", "hosts", "hostname", "resolv.conf", "mtab"},
    "var": {"tmp"},
}
"""Folders in which a sandbox has something of its own, so that their entries are shown one by one:
in a folder that is shown as a whole and read-only nothing can be put."""


def show_host() -> list[str]:
    """Words that show this machine's programs read-only, and what they need of its /etc."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def show_root(root: Path) -> list[str]:
    """Words that show all of `root` read-only, but for what a sandbox has of its own.

    Links are made anew inside, so that they lead nowhere but there.
    """
    words = list[str]()
    for entry in sorted(root.iterdir()):
        if entry.name in _TAKEN_BELOW and entry.is_dir() and not entry.is_symlink():
            for below in sorted(entry.iterdir()):
                if below.name not in _TAKEN_BELOW[entry.name]:
                    words += _shown(below, f"/{entry.name}/{below.name}")
        elif entry.name not in _TAKEN:
            words += _shown(entry, f"/{entry.name}")
    return words


def _shown(entry: Path, inside: str) -> list[str]:
    if entry.is_symlink():
        return ["--symlink", os.readlink(entry), inside]
    return ["--ro-bind", str(entry), inside] if entry.is_dir() or entry.is_file() else []
