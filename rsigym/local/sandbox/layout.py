"""The folders that every sandbox has, where the host keeps them, and what a path inside means."""

import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["FOLDERS", "HOME", "LOGS", "WORKDIR", "Layout"]

FOLDERS = ("app", "logs", "agent", "tests", "solution", "tmp", "home/user")
"""Writable, private, directly below the root of the sandbox."""

LOGS = ("logs/agent", "logs/verifier", "logs/artifacts")
WORKDIR, HOME = "/app", "/home/user"
_SCRIPT_BYTES = 1 << 20


@dataclass(frozen=True)
class Layout:
    """Where one sandbox's files are.

    Attributes:
        folder: The host folder that holds them. What a sandbox with a file system of its own sees
            as `/app` is `folder/app`, and so on.
        mapped: Whether the sandbox shares the host's file system, so that `/app` does not exist
            in it and has to be said as `folder/app`.
    """

    folder: Path
    mapped: bool

    @property
    def supervisor(self) -> Path:
        """The supervisor's archive, where the sandbox shares the host's file system."""
        return self.folder / "system" / "supervisor.pyz"

    @property
    def root(self) -> str:
        """The folder that transfers may not leave, as the supervisor sees it."""
        return str(self.folder) if self.mapped else "/"

    def create(self, owner: int | None, *, own_disk: bool) -> None:
        """Makes the folders.

        Args:
            owner: The user that they are given to, or None for the one that makes them.
            own_disk: Whether the sandbox brings its own, and the host has nothing to keep but
                the place.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in () if own_disk else (*FOLDERS, *LOGS):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if not own_disk:
            os.chmod(self.folder / "tmp", stat.S_ISVTX | 0o777)
        os.chmod(self.folder, 0o700)
        if owner is not None:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, owner, owner)

    def path(self, inside: str) -> str:
        """What a process in the sandbox has to call the path `inside`; relative to /app."""
        absolute = os.path.normpath(os.path.join(WORKDIR, inside))
        if self.mapped and self._well_known.match(absolute):
            return f"{self.folder}{absolute}"
        return absolute

    def rewrite(self, text: str) -> str:
        """The text with the standard folders' paths said as `path` says them.

        Only paths that are written out are found: not one that a program puts together, nor one
        that it is told about later.
        """
        if not self.mapped:
            return text
        return self._well_known.sub(lambda found: f"{self.folder}{found[0]}", text)

    def rewritten(self, path: str, fd: int) -> int:
        """The descriptor of a file on its way in; of a script with `rewrite` done, where needed.

        Scripts are what begins with `#!` or is named `.sh` or `.py`, is UTF-8 and below 1 MiB.
        Nothing else is changed: data is data.
        """
        if not self.mapped or os.fstat(fd).st_size > _SCRIPT_BYTES:
            return fd
        content = os.pread(fd, _SCRIPT_BYTES, 0)
        if not (content.startswith(b"#!") or path.endswith((".sh", ".py"))):
            return fd
        try:
            text = self.rewrite(content.decode())
        except UnicodeDecodeError:
            return fd
        os.close(fd)
        changed = os.memfd_create("script")
        os.write(changed, text.encode())
        return changed

    @cached_property
    def _well_known(self) -> re.Pattern[str]:
        names = "|".join(map(re.escape, FOLDERS))
        already = re.escape(str(self.folder))
        # Not within a longer path or word, behind a variable, or where `folder` itself begins.
        return re.compile(rf"(?<![\w.~/)}}*-])(?!{already}(?:/|\b))/(?:{names})(?![\w-]|\.\w)")
