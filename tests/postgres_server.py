"""A PostgreSQL server of one's own, for tests and measurements, on a Unix socket."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["PASSWORD", "installed", "postgres_server"]

PASSWORD = "correct-horse"


def installed() -> Path | None:
    """The folder of the newest PostgreSQL's programs; None where there is none."""
    packaged = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(packaged, key=lambda path: int(path.parts[-3]), default=None)
    found = newest or shutil.which("postgres")
    return Path(found).resolve().parent if found else None


@contextmanager
def postgres_server(programs: Path, *settings: str) -> Iterator[str]:
    """The URL of a new server's database.

    Args:
        programs: As `installed` finds them.
        settings: More of the server's settings, `name=value`.
    """
    folder = Path(tempfile.mkdtemp(prefix="rsigym-pg-"))
    try:
        owner = _owner(folder)
        password = folder / "password"
        password.write_text(PASSWORD)
        data = folder / "data"
        setup = ["initdb", "-U", "rsigym", "-A", "scram-sha-256", "--pwfile", password, "-D", data]
        subprocess.run(
            [programs / setup[0], *setup[1:], "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **owner,
        )
        # Also where this process is killed and cannot stop it.
        dying_with_us = ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else []
        server = subprocess.Popen(
            [
                *dying_with_us,
                programs / "postgres",
                "-D",
                data,
                "-k",
                folder,
                "-c",
                "listen_addresses=",
            ]
            + [part for setting in settings for part in ("-c", setting)],
            stderr=(folder / "log").open("wb"),
            cwd=folder,
            **owner,
        )
        try:
            _wait_until_ready(programs, folder, server)
            yield f"postgresql://rsigym:{PASSWORD}@/postgres?host={folder}"
        finally:
            # At once, without waiting for clients.
            server.send_signal(signal.SIGQUIT)
            server.wait(30)
    finally:
        shutil.rmtree(folder)


def _owner(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses root: then another user owns the folder and runs the programs."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _wait_until_ready(programs: Path, folder: Path, server: "subprocess.Popen[Any]") -> None:
    deadline = time.monotonic() + 60
    ask = [programs / "pg_isready", "-q", "-h", folder]
    while subprocess.run(ask, check=False).returncode:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start: {(folder / 'log').read_text()}")
        time.sleep(0.05)
