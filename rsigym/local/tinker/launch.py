"""The local Tinker server as a child process: started, handed its key, and never left behind.

The child reads its settings, the key among them, from a pipe on its standard input: nothing secret
is on its command line or in its environment. The same pipe tells it that its parent is gone: the
kernel closes it with the parent, however the parent dies. (PR_SET_PDEATHSIG would not do: it fires
when the *thread* that started the child ends.)
"""

import atexit
import json
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import rsigym
from rsigym.local.models import DEFAULT, model_folder
from rsigym.local.tinker.engines import Dtype
from rsigym.platform.errors import OperatorError
from rsigym.platform.home import home

__all__ = ["Settings", "TinkerServer"]

# A child that says nothing for this long is given up.
START_S = 120.0
# A child whose pipe is closed ends at once; this long after, it is killed.
STOP_S = 10.0


@dataclass(frozen=True)
class Settings:
    """What a server is started with. Equal settings can share one server.

    Attributes:
        models: Names and the absolute folders behind them.
        store: The absolute folder of the checkpoints.
        dtype: The engines' number format.
        threads: Torch threads of each engine; None leaves it to the engine.
        port: 0 takes a free one.
    """

    models: tuple[tuple[str, str], ...]
    store: str
    dtype: Dtype
    threads: int | None
    port: int

    @classmethod
    def resolve(
        cls,
        models: Mapping[str, Path] | None,
        *,
        store: Path | None,
        dtype: Dtype,
        threads: int | None,
        port: int = 0,
    ) -> "Settings":
        """Fill in the defaults and check the folders.

        The default model is made ready here, in the parent, where its errors are understood.

        Raises:
            OperatorError: A folder holds no model, or the default model cannot be had.
        """
        sources = {DEFAULT: DEFAULT} if models is None else models
        return cls(
            models=tuple(
                (name, str(model_folder(str(it)).resolve())) for name, it in sources.items()
            ),
            store=str((store or home() / "tinker").expanduser().resolve()),
            dtype=dtype,
            threads=threads,
            port=port,
        )


class TinkerServer:
    """A running local Tinker server, for `tinker.ServiceClient(base_url=url, api_key=api_key)`.

    Attributes:
        url: `http://127.0.0.1:<port>`.
        api_key: Random, made for this server.
    """

    def __init__(self, settings: Settings) -> None:
        self.api_key = f"tml-{secrets.token_urlsafe(32)}"
        self._owner = os.getpid()
        self._scratch = tempfile.mkdtemp(prefix="rsigym-tinker-")
        # Appending, because both processes share the position in the file.
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed in `close`
        self._process = _spawn(self._log)
        _started.add(self)
        try:
            self.url = self._introduce(settings)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the child still runs."""
        return self._process.poll() is None

    def wait(self) -> str:
        """Block until the server ends by itself, and return why it did."""
        status = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'without a word'} (exit status {status})"

    def close(self) -> None:
        """End the server; what was saved stays in the store. A forked copy ends nothing."""
        if os.getpid() != self._owner:
            return
        self.let_go()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def let_go(self) -> None:
        """Close this process's ends of the pipes: the server lives while somebody holds them."""
        for pipe in _pipes(self._process):
            pipe.close()

    def _introduce(self, settings: Settings) -> str:
        """Hand over the settings; the child answers with its URL once it is ready."""
        about = {
            **asdict(settings),
            "api_key": self.api_key,
            "parent": self._owner,
            "scratch": self._scratch,
        }
        to_child, from_child = _pipes(self._process)
        with suppress(BrokenPipeError):  # It died at once: there is no URL then, and a log.
            to_child.write(json.dumps(about).encode() + b"\n")
            to_child.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(from_child, selectors.EVENT_READ)
            if not selector.select(START_S):
                raise OperatorError(f"the local Tinker server was not ready within {START_S:g} s")
        url = from_child.readline().decode().strip()
        if not url:
            raise OperatorError(f"the local Tinker server did not start: {self.wait()}")
        return url


_started: weakref.WeakSet[TinkerServer] = weakref.WeakSet()


def _spawn(log: IO[bytes]) -> subprocess.Popen[bytes]:
    """The child, in a session of its own: Ctrl-C reaches the parent, which ends it in order."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "rsigym.local.tinker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=_environment(),
        start_new_session=True,
    )


def _environment() -> dict[str, str]:
    """The child finds this very package, also where a path in this process alone leads to it.

    Its threads sleep while they wait for each other: on cores that others use too, threads that
    spin instead make torch many times slower.
    """
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    root = str(Path(rsigym.__file__).parents[1])
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        paths = filter(None, [root, os.environ.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


@atexit.register
def _close_all() -> None:
    for server in list(_started):
        server.close()


def _let_go_of_all() -> None:
    """In a forked child: its copies of the pipes must not keep the parent's servers alive."""
    for server in list(_started):
        server.let_go()
    _started.clear()


os.register_at_fork(after_in_child=_let_go_of_all)
