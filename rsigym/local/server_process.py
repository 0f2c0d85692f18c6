"""A server of this machine as a child process: started, handed its settings, never left behind.

The child reads its settings, its key among them, from a pipe on its standard input: nothing secret
is on its command line or in its environment. The same pipe tells it that its parent is gone: the
kernel closes it with the parent, however the parent dies. (PR_SET_PDEATHSIG would not do: it fires
when the *thread* that started the child ends.) `server_child` is the other end.
"""

import atexit
import json
import os
import selectors
import subprocess
import sys
import sysconfig
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import rsigym
from rsigym.platform.errors import OperatorError

__all__ = ["ServerProcess"]

# A child that says nothing for this long is given up.
START_S = 120.0
# A child whose pipe is closed ends at once; this long after, it is killed.
STOP_S = 10.0


class ServerProcess:
    """A running server in a child process of its own.

    Attributes:
        url: `http://127.0.0.1:<port>`.
        api_key: Random, made for this server.
    """

    def __init__(
        self,
        module: str,
        name: str,
        settings: Mapping[str, Any],
        *,
        api_key: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            module: What the child runs: `python -m module`.
            name: What errors call the server.
            settings: JSON-able; `api_key` and `parent`, this process's id, are added.
            api_key: The key that callers have to present.
            environment: Variables for the child that the caller's own environment overrides.

        Raises:
            OperatorError: It does not start; the message says why.
        """
        self.api_key = api_key
        self._name = name
        self._owner = os.getpid()
        # Appending, because both processes share the position in the file.
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed in `close`
        self._process = _spawn(module, self._log, environment or {})
        _started.add(self)
        try:
            self.url = self._introduce({**settings, "api_key": self.api_key, "parent": self._owner})
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
        """End the server. A forked copy ends nothing."""
        if os.getpid() != self._owner:
            return
        self.let_go()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def let_go(self) -> None:
        """Close this process's ends of the pipes: the server lives while somebody holds them."""
        for pipe in _pipes(self._process):
            pipe.close()

    def _introduce(self, settings: Mapping[str, Any]) -> str:
        """Hand over the settings; the child answers with its URL once it is ready."""
        to_child, from_child = _pipes(self._process)
        with suppress(BrokenPipeError):  # It died at once: there is no URL then, and a log.
            to_child.write(json.dumps(settings).encode() + b"\n")
            to_child.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(from_child, selectors.EVENT_READ)
            if not selector.select(START_S):
                raise OperatorError(f"the {self._name} was not ready within {START_S:g} s")
        url = from_child.readline().decode().strip()
        if not url:
            raise OperatorError(f"the {self._name} did not start: {self.wait()}")
        return url


_started: weakref.WeakSet[ServerProcess] = weakref.WeakSet()


def _spawn(module: str, log: IO[bytes], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """The child, in a session of its own: Ctrl-C reaches the parent, which ends it in order."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env={**environment, **_environment()},
        start_new_session=True,
    )


def _environment() -> dict[str, str]:
    """The child finds this very package, also where a path in this process alone leads to it."""
    environment = dict(os.environ)
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
