"""The filter of system calls: as a program, and as what a sandbox runs under."""

import errno
import platform
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.local.sandbox import Isolation
from rsigym.local.sandbox.seccomp import seccomp_program
from tests.local.sandbox.support import on_loop, opened, output

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, REFUSE, UNKNOWN = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel would answer: the program run here, instruction by instruction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform, "machine", lambda: machine)
        program = list(struct.iter_unpack("HBBI", seccomp_program() or b""))
    data = struct.pack(
        "<iIQ6Q",
        number,
        architecture or ARCHITECTURES[machine],
        0,
        *arguments,
        *[0] * (6 - len(arguments)),
    )
    position = loaded = 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return value
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            position += if_true if holds else if_false


both = pytest.mark.parametrize("machine", ARCHITECTURES)


@both
def test_the_kernels_dangerous_corners_are_closed(machine: str):
    numbers = {
        "x86_64": {"mount": 165, "bpf": 321, "keyctl": 250, "kexec_load": 246, "setns": 308},
        "aarch64": {"mount": 40, "bpf": 280, "keyctl": 219, "kexec_load": 104, "setns": 268},
    }
    shared = {"io_uring_setup": 425, "fsopen": 430, "pidfd_getfd": 438}
    for number in (numbers[machine] | shared).values():
        assert verdict(machine, number) == REFUSE


@both
def test_arguments_decide_where_a_call_is_half_open(machine: str):
    second = machine == "aarch64"
    clone, unshare, personality = ((56, 220)[second], (272, 97)[second], (135, 92)[second])
    assert verdict(machine, clone, 0x3D0F00) == ALLOW  # a thread
    assert verdict(machine, clone, 0x1200011) == ALLOW  # a fork
    for namespace in (0x20000, *(1 << bit for bit in range(25, 31))):
        assert verdict(machine, clone, namespace | 17) == REFUSE
        assert verdict(machine, unshare, namespace) == REFUSE
    assert verdict(machine, unshare, 0x400) == ALLOW  # its own table of descriptors
    assert verdict(machine, personality, 0xFFFFFFFF) == ALLOW
    assert verdict(machine, personality, 0x0400000) == REFUSE  # READ_IMPLIES_EXEC


@both
def test_no_sockets_but_unix_ip_and_the_list_of_interfaces(machine: str):
    for call in ((41, 198), (53, 199)):
        number = call[machine == "aarch64"]
        open_families = {n for n in range(64) if verdict(machine, number, n, 1, 0) == ALLOW}
        assert open_families == {1, 2, 10, 16}
        assert verdict(machine, number, 16, 3, 4) == REFUSE  # netlink's sock_diag


@both
def test_nobody_types_into_a_terminal_for_another(machine: str):
    ioctl = (16, 29)[machine == "aarch64"]
    assert verdict(machine, ioctl, 0, 0x5412) == REFUSE
    assert verdict(machine, ioctl, 0, 0x5412 | 1 << 32) == REFUSE  # the kernel drops the upper half
    assert verdict(machine, ioctl, 0, 0x5413) == ALLOW


@both
@given(number=st.integers(470, 0x3FFFFFFF), argument=st.integers(0, 2**64 - 1))
def test_what_is_newer_than_the_filter_does_not_exist(machine: str, number: int, argument: int):
    assert verdict(machine, number, argument) == UNKNOWN
    assert verdict(machine, 435, argument) == UNKNOWN


@both
@given(number=st.integers(0, 2**31 - 1), architecture=st.integers(0, 2**32 - 1))
def test_other_architectures_have_no_way_in(machine: str, number: int, architecture: int):
    if architecture not in (0, ARCHITECTURES[machine]):
        assert verdict(machine, number, architecture=architecture) == KILL
    assert verdict(machine, number | 0x40000000) == REFUSE


def test_an_unknown_machine_has_no_filter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert seccomp_program() is None


TRY = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(*map(ctypes.c_long, arguments))
    print(name, errno.errorcode.get(ctypes.get_errno(), answer))
tried("keyctl", 250, 0, -3, 1)
tried("bpf", 321, 0, 0, 0)
tried("perf_event_open", 298, 0, 0, -1, -1, 0)
tried("userfaultfd", 323, 1)
tried("io_uring_setup", 425, 1, 0)
tried("syslog", 103, 3, 0, 0)
tried("fsopen", 430, 0, 0)
tried("clone", 56, 0x10000000 | 17, 0, 0, 0, 0)
tried("unshare", 272, 0x10000000)
tried("clone3", 435, 0, 0)
tried("later", 500)
for family in (38, 40, 17, 44):
    try:
        socket.socket(family, socket.SOCK_RAW)
        print("opened", family)
    except PermissionError:
        print("family EPERM")
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are of x86-64")
@on_loop
async def test_the_filter_is_in_force(tmp_path: Path, bubblewrap: Isolation):
    async with opened(tmp_path, bubblewrap) as sandbox:
        answered = (await sandbox.exec("python3 -", stdin=TRY.encode())).stdout.decode()
        status = await output(sandbox, "grep Seccomp: /proc/self/status /proc/1/status")
    absent = "clone3 ENOSYS\nlater ENOSYS\n"
    assert absent in answered
    refused = answered.replace(absent, "").splitlines()
    assert len(refused) == 13
    assert {line.split()[1] for line in refused} == {"EPERM"}
    assert [line.split()[1] for line in status.splitlines()] == ["2", "2"]


WORKLOADS = {
    "python3": """python3 - <<'E'
import concurrent.futures as futures, multiprocessing, socket, sqlite3, subprocess, threading
if __name__ == "__main__":
    with futures.ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(int, "123")) == 6
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert sum(pool.map(int, "123")) == 6
    assert subprocess.check_output(["echo", "x"]) == b"x\\n"
    assert sqlite3.connect("/tmp/x.db").execute("select 1").fetchone() == (1,)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
E""",
    "node": """node -e '
const {Worker} = require("worker_threads"), {execSync} = require("child_process");
if (String(execSync("echo x")) != "x\\n") process.exit(1);
require("fs").promises.writeFile("/tmp/n", "x")
  .then(() => new Worker("process.exit(0)", {eval: true}).on("exit", code => process.exit(code)));
'""",
    "gcc": "echo 'int main(void) { return 0; }' > a.c && gcc -o a a.c && ./a",
    "git": "git init -q r && cd r && git -c user.name=a -c user.email=b commit -qm x --allow-empty",
    "java": "java -Xmx64m -version",
    "bash": "cat <(echo x) | tee /tmp/y > /dev/null && [ $(cat /tmp/y) = x ]",
}


@pytest.mark.parametrize("program", WORKLOADS)
@on_loop
async def test_what_people_run_still_runs(tmp_path: Path, bubblewrap: Isolation, program: str):
    if shutil.which(program, path="/usr/bin:/bin") is None:
        pytest.skip(f"no {program} on this machine")
    async with opened(tmp_path, bubblewrap) as sandbox:
        ended = await sandbox.exec(WORKLOADS[program], timeout_s=60)
        assert ended.exit_code == 0, ended
