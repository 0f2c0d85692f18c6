"""Terminals by the SDK."""

from typing import Any

import e2b
import pytest

from tests.local.e2b.sdk import Api
from tests.waiting import eventually

_SIZE = e2b.PtySize(rows=24, cols=80)


class Terminal:
    """A terminal and all that it has printed; the two APIs hand output out in different ways."""

    def __init__(self, api: Api, sandbox: Any, **options: Any):
        self.text = ""
        self._synchronous = api.name == "sync"
        if self._synchronous:
            self.handle = sandbox.pty.create(_SIZE, **options)
        else:
            self.handle = sandbox.pty.create(_SIZE, self._add, **options)

    def wait_for(self, text: str) -> None:
        if not self._synchronous:
            eventually(lambda: text in self.text, f"no {text!r} in {self.text!r}")
            return
        output = iter(self.handle)
        while text not in self.text:
            self._add(next(output)[2] or b"")

    def _add(self, data: bytes) -> None:
        self.text += data.decode()


def test_a_terminal_is_one_and_has_its_size(api: Api, sandbox: Any) -> None:
    terminal = Terminal(api, sandbox, envs={"WHO": "me"}, cwd="/tmp")
    pid = terminal.handle.pid
    sandbox.pty.send_stdin(pid, b"tty; stty size; echo $WHO in $PWD\n")
    terminal.wait_for("me in /tmp")
    assert "/dev/pts/" in terminal.text
    assert "24 80" in terminal.text
    sandbox.pty.resize(pid, e2b.PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(pid, b"stty size\n")
    terminal.wait_for("40 120")
    sandbox.pty.send_stdin(pid, b"exit 7\n")
    with pytest.raises(e2b.CommandExitException) as raised:
        terminal.handle.wait()
    assert raised.value.exit_code == 7


def test_control_c_interrupts_what_runs_in_it(api: Api, sandbox: Any) -> None:
    terminal = Terminal(api, sandbox)
    sandbox.pty.send_stdin(terminal.handle.pid, b"sh -c 'echo st\"\"arted; exec sleep 60'\n")
    terminal.wait_for("started")
    sandbox.pty.send_stdin(terminal.handle.pid, b"\x03")
    terminal.wait_for("^C")  # what is typed before it is thrown away by the terminal
    sandbox.pty.send_stdin(terminal.handle.pid, b"echo af''ter\n")
    terminal.wait_for("after")


def test_a_terminal_is_killed_and_gone(api: Api, sandbox: Any) -> None:
    terminal = Terminal(api, sandbox)
    assert [it.pid for it in sandbox.commands.list()] == [terminal.handle.pid]
    assert sandbox.pty.kill(terminal.handle.pid) is True
    eventually(lambda: not sandbox.commands.list(), "it is still there")
    assert sandbox.pty.kill(terminal.handle.pid) is False
    with pytest.raises(e2b.NotFoundException):
        sandbox.pty.resize(terminal.handle.pid, _SIZE)
