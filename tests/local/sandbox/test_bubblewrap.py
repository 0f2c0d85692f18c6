"""What bubblewrap keeps apart, tried from inside."""

import ast
import os
import shutil
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import rsigym
from rsigym.local.sandbox import Isolation, interpreter
from rsigym.local.sandbox.host import USERS
from rsigym.local.sandbox.layout import FOLDERS
from rsigym.platform.errors import OperatorError
from tests.local.sandbox.support import appeared, on_loop, opened, output, processes_with

OUTSIDE = ["/root", "/etc/shadow", "/etc/hostname", "/sys", "/opt", "/srv", "/boot"]


@on_loop
async def test_host_files_are_not_there(tmp_path: Path, bubblewrap: Isolation):
    (tmp_path / "secret").write_text("of the host")
    own = [str(Path.home()), str(Path(rsigym.__file__).parent), str(tmp_path / "secret")]
    async with opened(tmp_path, bubblewrap) as sandbox:
        for path in (*OUTSIDE, *own):
            seen = await sandbox.exec(f"ls -d {path} /proc/1/root{path} /proc/self/root{path}")
            assert seen.stdout == b"", path


@on_loop
async def test_no_place_but_the_standard_folders_can_be_written(
    tmp_path: Path, bubblewrap: Isolation
):
    find = "find / -type d -writable -not -path '/proc/*' 2>/dev/null"
    async with opened(tmp_path, bubblewrap) as sandbox:
        tried = await sandbox.exec(f"for d in $({find}); do touch $d/x && echo $d; done")
    written = set(tried.stdout.decode().split())
    logs = {"/logs/agent", "/logs/verifier", "/logs/artifacts"}
    assert written == {f"/{name}" for name in FOLDERS} | logs | {"/dev/shm"}


@on_loop
async def test_other_processes_are_not_there(tmp_path: Path, bubblewrap: Isolation):
    async with opened(tmp_path, bubblewrap) as sandbox:
        commands = await output(sandbox, "cat /proc/[0-9]*/comm")
        assert set(commands.split()) == {"python3", "cat"}
        assert (await sandbox.exec(f"kill -0 {os.getpid()}")).exit_code != 0


@on_loop
async def test_servers_of_the_host_cannot_be_reached(tmp_path: Path, bubblewrap: Isolation):
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        name = f"\0rsigym-{os.getpid()}"
        abstract.bind(name)
        abstract.listen()
        program = f"""
import socket
for family, address in ((socket.AF_INET, {tcp.getsockname()!r}), (socket.AF_UNIX, {name!r})):
    try:
        socket.socket(family).connect(address)
        print("reached", address)
    except ConnectionRefusedError:
        print("refused")
print(socket.if_nameindex())
"""
        async with opened(tmp_path, bubblewrap) as sandbox:
            result = await sandbox.exec("python3 -", stdin=program.encode())
            assert result.stdout.decode() == "refused\nrefused\n[(1, 'lo')]\n"


@on_loop
async def test_there_are_no_privileges_to_gain(tmp_path: Path, bubblewrap: Isolation):
    async with opened(tmp_path, bubblewrap) as sandbox:
        status = await output(sandbox, "cat /proc/self/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(fields[capabilities], 16) == 0
        assert fields["NoNewPrivs"] == "1"
        assert fields["Uid"].split() == ["1000"] * 4
        assert (await sandbox.exec("unshare --user true")).exit_code != 0
        assert (await sandbox.exec("mount -t tmpfs x /app")).exit_code != 0


@on_loop
async def test_the_supervisor_is_closed_to_those_it_runs(tmp_path: Path, bubblewrap: Isolation):
    program = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, 1, 0, 0), libc.syscall(434, 1, 0) >= 0)
print(libc.syscall(438, libc.syscall(434, 1, 0), 3, 0))
for path in ("fd", "environ", "mem"):
    try:
        print(os.listdir("/proc/1/fd") if path == "fd" else open("/proc/1/" + path))
    except PermissionError:
        print("closed")
"""
    async with opened(tmp_path, bubblewrap) as sandbox:
        result = await sandbox.exec("python3 -", stdin=program.encode())
        assert result.stdout.decode() == "-1 True\n-1\nclosed\nclosed\nclosed\n"
        await sandbox.exec("kill -KILL 1; kill -STOP 1; kill -TERM 1; kill -INT 1; kill -HUP 1")
        assert await output(sandbox, "echo works") == "works"


@on_loop
async def test_a_command_inherits_no_descriptor_but_its_three(
    tmp_path: Path, bubblewrap: Isolation
):
    async with opened(tmp_path, bubblewrap) as sandbox:
        assert await output(sandbox, "exec ls /proc/self/fd") == "0\n1\n2\n3"  # 3 is ls's own


@on_loop
async def test_the_machine_is_not_named(tmp_path: Path, bubblewrap: Isolation):
    async with opened(tmp_path, bubblewrap) as sandbox:
        assert await output(sandbox, "uname -n; whoami; id -u") == "sandbox\nuser\n1000"


@on_loop
async def test_files_of_another_sandbox_cannot_be_reached(tmp_path: Path, bubblewrap: Isolation):
    async with opened(tmp_path / "a", bubblewrap) as one, opened(tmp_path / "b", bubblewrap) as two:
        await output(one, "echo mine | tee /app/one /tmp/one /dev/shm/one")
        paths = "/app/one /tmp/one /dev/shm/one"
        for way in ("", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/.."):
            seen = await two.exec("cat " + " ".join(way + path for path in paths.split()))
            assert seen.stdout == b""


@on_loop
async def test_roots_sandboxes_are_not_roots(tmp_path: Path, bubblewrap: Isolation):
    if os.geteuid() != 0:
        pytest.skip("only root's sandboxes run as other users")
    mark = f"66.{uuid.uuid4().int % 10**9}"
    async with opened(tmp_path / "a", bubblewrap) as one, opened(tmp_path / "b", bubblewrap) as two:
        for sandbox in (one, two):
            await sandbox.exec(f"sleep {mark} &")
        assert await appeared(mark, 2)
        users = {os.stat(f"/proc/{pid}").st_uid for pid in processes_with(mark)}
        assert len(users) == 2
        assert users <= {*USERS}
        assert (await one.exec("echo 1 > /proc/sys/kernel/core_pattern")).exit_code != 0


TAKE_INOTIFY = """
import ctypes
libc = ctypes.CDLL(None)
while libc.inotify_init() >= 0:
    pass
print("all taken", flush=True)
import time; time.sleep(60)
"""


@on_loop
async def test_what_the_kernel_counts_by_user_is_each_sandboxs_own(
    tmp_path: Path, bubblewrap: Isolation
):
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's sandboxes are all that user's")
    watch = "python3 -c 'import ctypes; print(ctypes.CDLL(None).inotify_init() >= 0)'"
    async with opened(tmp_path / "a", bubblewrap) as one, opened(tmp_path / "b", bubblewrap) as two:
        await one.exec(f"python3 -c '{TAKE_INOTIFY}' > taken &")
        await output(one, "until grep -q all taken; do :; done")
        assert await output(one, watch) == "False"
        assert await output(two, watch) == "True"


ORDINARY = """
import asyncio, concurrent.futures.thread, os, sys
from pathlib import Path
from rsigym.local.sandbox import Sandbox, choose_isolation

async def main(folder):
    async with Sandbox(folder / "sandbox", isolation=choose_isolation("bubblewrap")) as sandbox:
        print((await sandbox.exec("id -u; cat /tests/in; ls -d /root; echo out > out")).stdout)
        await sandbox.upload(folder / "in", "/tests/in")
        await sandbox.download("/app/out", folder / "out")
        print((await sandbox.exec("cat /tests/in")).stdout, (folder / "out").read_text())
    print(os.listdir(folder))

os.setgroups([]), os.setgid(65534), os.setuid(65534)
asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.usefixtures("bubblewrap")
def test_an_ordinary_user_has_sandboxes_too(folder: Path):
    """In a process that gives root up once it has read its modules, which may be root's."""
    if os.geteuid() != 0:
        pytest.skip("every other test shows it")
    (folder / "in").write_text("in")
    os.chown(folder, 65534, 65534)
    environment = os.environ | {"RSIGYM_HOME": str(folder / "home")}
    words = [sys.executable, "-c", ORDINARY, str(folder)]
    printed = subprocess.check_output(words, text=True, env=environment)
    first, second, left = printed.splitlines()[0], printed.splitlines()[1], printed.splitlines()[-1]
    assert first == str(b"1000\n")
    assert second == str(b"in") + " out"
    assert sorted(ast.literal_eval(left)) == ["home", "in", "out"]


@on_loop
async def test_an_interpreter_outside_the_system_is_shown(
    folder: Path, bubblewrap: Isolation, monkeypatch: pytest.MonkeyPatch
):
    python = _copied_python(folder / "home" / "python")
    monkeypatch.setattr(interpreter, "SYSTEM_PYTHONS", ())
    monkeypatch.setattr(sys, "base_prefix", str(folder / "home" / "python"))
    monkeypatch.setattr(sys, "executable", str(python))
    interpreter.choose_interpreter.cache_clear()
    try:
        async with opened(folder, bubblewrap) as sandbox:
            supervisor = await output(sandbox, "tr '\\0' ' ' < /proc/1/cmdline")
            assert supervisor.startswith(f"{python} -I -S")
            assert str(python.parent) in await output(sandbox, "echo $PATH")
            seen = await output(sandbox, f"ls -A {folder} {folder}/home")
            assert seen.split() == [f"{folder}:", "home", f"{folder}/home:", "python"]
    finally:
        interpreter.choose_interpreter.cache_clear()


def test_no_interpreter_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(interpreter, "SYSTEM_PYTHONS", ("/nowhere/python3",))
    monkeypatch.setattr(sys, "base_prefix", "/")
    interpreter.choose_interpreter.cache_clear()
    try:
        with pytest.raises(OperatorError, match="install python3 as /nowhere/python3"):
            interpreter.choose_interpreter(None)
    finally:
        interpreter.choose_interpreter.cache_clear()


def _copied_python(prefix: Path) -> Path:
    """The system's Python as an installation of its own, with no more than what is needed."""
    ask = "import os, sys; print(os.path.dirname(os.__file__)); print(sys.executable)"
    words = ["/usr/bin/python3", "-I", "-c", ask]
    library, program = subprocess.check_output(words, text=True).split()
    unused = shutil.ignore_patterns("test", "*-packages", "__pycache__", "config-*", "idlelib")
    shutil.copytree(library, prefix / "lib" / Path(library).name, ignore=unused)
    (prefix / "bin").mkdir()
    return Path(shutil.copy(os.path.realpath(program), prefix / "bin"))
