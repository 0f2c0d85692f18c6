"""Commands by the SDK: output, input, background, and what ends them."""

from typing import Any

import e2b
import pytest

from tests.local.e2b.sdk import Api
from tests.waiting import eventually


def test_a_command_answers_with_what_it_printed(sandbox: Any) -> None:
    result = sandbox.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)
    assert result.error is None


def test_a_command_that_fails_raises_with_its_output(sandbox: Any) -> None:
    with pytest.raises(e2b.CommandExitException) as raised:
        sandbox.commands.run("echo out; echo err >&2; exit 3")
    error = raised.value
    assert (error.exit_code, error.stdout, error.stderr) == (3, "out\n", "err\n")


def test_output_arrives_while_the_command_runs(sandbox: Any) -> None:
    seen: list[str] = []

    def answer(text: str) -> None:
        seen.append(text)

    handle = sandbox.commands.run("echo one; read x; echo two", background=True, stdin=True)
    watching = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "go\n")
    assert "two\n" in watching.wait().stdout
    assert handle.wait().stdout == "one\ntwo\n"
    sandbox.commands.run("echo a; echo b >&2", on_stdout=answer, on_stderr=answer)
    assert sorted(seen) == ["a\n", "b\n"]


def test_environment_and_folder_are_those_asked_for(sandbox: Any) -> None:
    run = sandbox.commands.run
    assert run("pwd").stdout == "/home/user\n"
    assert run("pwd; echo $X", cwd="/tmp", envs={"X": "y"}).stdout == "/tmp\ny\n"
    sandbox.files.make_dir("below")
    assert run("pwd", cwd="below").stdout == "/home/user/below\n"
    with pytest.raises(e2b.SandboxException):
        run("pwd", cwd="/nowhere")


@pytest.mark.parametrize("user", ["user", "root"])
def test_both_names_of_the_one_user_will_do(sandbox: Any, user: str) -> None:
    assert sandbox.commands.run("echo hello", user=user).stdout == "hello\n"


def test_another_user_is_refused(sandbox: Any) -> None:
    with pytest.raises(e2b.AuthenticationException, match="invalid username: 'nobody'"):
        sandbox.commands.run("id", user="nobody")
    with pytest.raises(e2b.AuthenticationException, match="invalid username: 'nobody'"):
        sandbox.files.read("/etc/hosts", user="nobody")


def test_characters_survive_the_pieces_that_they_arrive_in(sandbox: Any) -> None:
    text = sandbox.commands.run("for i in $(seq 40000); do printf 'aäö€'; done").stdout
    assert text == "aäö€" * 40000


def test_standard_input_is_written_and_closed(sandbox: Any) -> None:
    handle = sandbox.commands.run("cat; echo end", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "first\n")
    handle.send_stdin("second\n")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "first\nsecond\nend\n"


def test_streamed_input_keeps_its_order(api: Api, sandbox: Any) -> None:
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    pieces = [f"{i}\n" for i in range(50)]
    if api.name == "sync":
        sandbox.commands.stream_input(handle.pid, pieces)
    else:
        stream = sandbox.commands.stream_input(handle.pid)
        for piece in pieces:
            stream.send(piece)
        stream.close()
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "".join(pieces)


def test_a_command_without_input_reads_nothing(sandbox: Any) -> None:
    assert sandbox.commands.run("cat; echo end", timeout=20).stdout == "end\n"


def test_background_commands_are_listed_killed_and_gone(sandbox: Any) -> None:
    handle = sandbox.commands.run("sleep 60", background=True, envs={"A": "b"}, cwd="/tmp")
    [listed] = sandbox.commands.list()
    assert (listed.pid, listed.cmd, listed.cwd) == (handle.pid, "/bin/bash", "/tmp")
    assert (listed.args, listed.envs) == (["-l", "-c", "sleep 60"], {"A": "b"})
    assert handle.kill() is True
    with pytest.raises(e2b.CommandExitException) as raised:
        handle.wait()
    assert raised.value.exit_code == -1
    assert "killed" in str(raised.value.error)
    eventually(lambda: not sandbox.commands.list(), "it is still listed")
    assert sandbox.commands.kill(handle.pid) is False
    with pytest.raises(e2b.NotFoundException):
        sandbox.commands.connect(handle.pid)
    with pytest.raises(e2b.NotFoundException):
        sandbox.commands.send_stdin(handle.pid, "x")


def test_a_client_that_goes_away_leaves_the_command_running(sandbox: Any) -> None:
    command = "while ! test -e /tmp/go; do echo tick; sleep 0.01; done; echo done"
    handle = sandbox.commands.run(command, background=True)
    handle.disconnect()
    assert [it.pid for it in sandbox.commands.list()] == [handle.pid]
    again = sandbox.commands.connect(handle.pid)
    sandbox.files.write("/tmp/go", "")
    assert again.wait().stdout.endswith("done\n")


def test_a_command_whose_time_is_up_is_killed(sandbox: Any) -> None:
    with pytest.raises(e2b.TimeoutException, match="exceeding 'timeout'"):
        sandbox.commands.run("sleep 60; true", timeout=0.5)
    eventually(lambda: not sandbox.commands.list(), "it outlived its time")
    left = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done | grep -c '^sleep 60'"
    assert sandbox.commands.run(f"{left}; true").stdout == "0\n"


def test_a_stream_whose_time_is_up_ends_and_the_command_does_not(sandbox: Any) -> None:
    handle = sandbox.commands.run("sleep 60", background=True, timeout=0)
    with pytest.raises(e2b.TimeoutException):
        sandbox.commands.connect(handle.pid, timeout=0.5).wait()
    assert [it.pid for it in sandbox.commands.list()] == [handle.pid]


def test_what_holds_the_output_open_is_not_waited_for(sandbox: Any) -> None:
    assert sandbox.commands.run("sleep 50 & echo started", timeout=20).stdout == "started\n"


def test_a_command_that_is_too_long_says_so(sandbox: Any) -> None:
    with pytest.raises(e2b.CommandExitException, match="Argument list too long"):
        sandbox.commands.run("true " + "x" * 200_000)


def test_a_sandbox_that_is_killed_ends_its_commands(sandbox: Any) -> None:
    handle = sandbox.commands.run("sleep 60", background=True)
    sandbox.kill()
    with pytest.raises(e2b.TimeoutException):
        handle.wait()


def test_the_exit_code_of_a_signal_inside_is_bashs(sandbox: Any) -> None:
    with pytest.raises(e2b.CommandExitException) as raised:
        sandbox.commands.run("sh -c 'kill -9 $$'; exit $?")
    assert raised.value.exit_code == 137


def test_two_sandboxes_do_not_see_each_other(api: Api, sandbox: Any) -> None:
    other = api.Sandbox.create(timeout=60)
    sandbox.files.write("/tmp/mine", "x")
    handle = sandbox.commands.run("sleep 60", background=True)
    assert not other.files.exists("/tmp/mine")
    assert other.commands.list() == []
    assert other.commands.kill(handle.pid + 100_000) is False
    other.kill()
