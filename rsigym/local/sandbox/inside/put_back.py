"""Making files and folders what an archive says that they were, while nothing else runs.

What is not as it was is moved out of the way and not removed: that needs no room on a full disk,
works however deep or closed a folder is, and leaves it to be looked at.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import tempfile

TYPE_CHECKING = False  # `typing` itself takes as long to import as all of this
if TYPE_CHECKING:
    from typing import IO

_MOST_TOLD = 100


def main() -> None:
    """Puts back the names that are its arguments, in the folder that is the first of them.

    Its input is an archive as `snapshot.save` makes it. It prints the first paths that were
    changed, as JSON, without Python's caches: running a program is enough to change those.
    """
    folder, *names = sys.argv[1:]
    os.chmod(folder, 0o755)
    aside = tempfile.mkdtemp(prefix="put-away-", dir=folder)
    with open(0, "rb", closefd=False) as source, tarfile.open(fileobj=source, mode="r:") as tar:
        putting = _PuttingBack(tar, aside)
        for name in names:
            putting.settle(f"{folder}/{name}")
    if not os.listdir(aside):
        os.rmdir(aside)
    told = [path for path in putting.changed if "/__pycache__" not in path]
    print(json.dumps(told[:_MOST_TOLD]))


class _PuttingBack:
    """What was, and what turned out to be changed so far."""

    def __init__(self, tar: tarfile.TarFile, aside: str):
        self.changed: list[str] = []
        self._tar, self._aside = tar, aside
        self._began: dict[str, tarfile.TarInfo] = {}
        self._below: dict[str, set[str]] = {}
        for member in tar:
            folder, _, name = f"/{member.name}".rpartition("/")
            self._began[f"/{member.name}"] = member
            self._below.setdefault(folder, set()).add(name)

    def settle(self, path: str) -> None:
        """Puts back one path and, in a folder that there was, all below it."""
        began = self._began.get(path)
        if not self._same(path, began):
            self.changed.append(path)
            if os.path.lexists(path):
                self._put_away(path)
            if began is None or not self._made(path, began):
                return
        if began is not None and began.isdir():
            os.chmod(path, began.mode | 0o700)
            for name in sorted(self._below.get(path, set()).union(os.listdir(path))):
                self.settle(f"{path}/{name}")
            os.chmod(path, began.mode)

    def _same(self, path: str, began: tarfile.TarInfo | None) -> bool:
        if began is None or not os.path.lexists(path):
            return began is None and not os.path.lexists(path)
        if os.path.islink(path):
            return began.issym() and os.readlink(path) == began.linkname
        if os.path.isdir(path):
            return began.isdir()
        if not (os.path.isfile(path) and (began.isreg() or began.islnk())):
            return False
        if (os.stat(path).st_mode ^ began.mode) & 0o777:
            return False
        with open(path, "rb") as file:
            return _same_content(file, self._content(began))

    def _content(self, began: tarfile.TarInfo) -> IO[bytes]:
        """From the archive also where it is a link to another file, which may have been changed."""
        content = self._tar.extractfile(began)
        assert content is not None
        return content

    def _put_away(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)  # to be moved it has to be writable
        os.rename(path, f"{self._aside}/{len(os.listdir(self._aside))}")

    def _made(self, path: str, began: tarfile.TarInfo) -> bool:
        """Makes it; False, and nothing is there, if there is no room for it."""
        try:
            if began.issym():
                os.symlink(began.linkname, path)
            elif began.isdir():
                os.mkdir(path)
            elif began.isreg() or began.islnk():
                with open(path, "wb") as file:
                    shutil.copyfileobj(self._content(began), file)
                os.chmod(path, began.mode)
        except OSError:
            if os.path.lexists(path):
                os.remove(path)
            return False
        return True


def _same_content(one: IO[bytes], other: IO[bytes]) -> bool:
    while (piece := one.read(1 << 20)) == other.read(1 << 20):
        if not piece:
            return True
    return False
