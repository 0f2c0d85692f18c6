"""Which host folders belong to living sandboxes, and removing those of the dead.

Each sandbox has a record in `home()/sandboxes` that its process keeps locked. The kernel drops
the lock with the process, however that ends, so a record that can be locked has no owner: a
reused process id, another container's ids or a restart of the machine cannot be mistaken for one.
"""

import fcntl
import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from rsigym.local.sandbox.cgroups import Cgroup
from rsigym.platform.home import home

__all__ = ["Claim", "remove_folder", "sweep"]


class Claim:
    """A living process's claim on what one sandbox leaves on the host."""

    def __init__(self, name: str, folder: Path, cgroup: Cgroup):
        """
        Args:
            name: Unique among all sandboxes of this `home()`.
            folder: Removed by `sweep` once this process is dead.
            cgroup: Likewise.
        """
        records = _records()
        records.mkdir(parents=True, exist_ok=True)
        self._path = records / f"{name}.json"
        new = records / f"{name}.new"
        self._file: BinaryIO = open(new, "xb")  # noqa: SIM115
        fcntl.flock(self._file, fcntl.LOCK_EX)
        record = {"folder": str(folder), "cgroup": [str(path) for path in cgroup.folders]}
        self._file.write(json.dumps(record).encode())
        self._file.flush()
        new.rename(self._path)  # no other process sees the record before it is locked

    def release(self, *, keep_record: bool) -> None:
        """Gives the claim up; with its record kept, the next `sweep` removes what is left."""
        if not keep_record:
            self._path.unlink(missing_ok=True)
        self._file.close()


def sweep() -> None:
    """Removes what the sandboxes of dead processes left behind.

    What is still in use, by a process that is about to end, is left to the next sweep.
    """
    for path in _records().glob("*.json"):
        with suppress(OSError, ValueError), open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            record = json.load(file)
            cgroup = Cgroup(tuple(map(Path, record["cgroup"])))
            cgroup.kill()
            if remove_folder(Path(record["folder"])) and cgroup.try_remove():
                path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> bool:
    """Removes a folder whatever a sandbox has made of it; whether it is gone."""
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        # Folders without permissions, or deeper than a path can name: the system's tools do them.
        for words in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*words, "--", folder], capture_output=True, check=False)
    return not os.path.lexists(folder)


def _records() -> Path:
    return home() / "sandboxes"
