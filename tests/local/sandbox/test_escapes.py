"""Programs that try to get out, or to take all there is, beside a sandbox that goes on working."""

import asyncio
import os
import uuid
from pathlib import Path

import pytest

from rsigym.local.sandbox import Limits, Sandbox
from rsigym.local.sandbox.cgroups import cgroup_bounds_cpus
from tests.local.sandbox.support import appeared, output, processes_with
from tests.local.sandbox.users import by_both_users

LIMITS = Limits(memory_mb=256, processes=80, disk_mb=32)


def sandbox_in(folder: Path, name: str = "sandbox", limits: Limits = LIMITS) -> Sandbox:
    return Sandbox(folder / name, isolation="bubblewrap", limits=limits)


@by_both_users
async def test_no_link_and_no_entry_of_proc_leads_to_the_hosts_files(folder: Path):
    (folder / "secret").write_text("of the host")
    os.chmod(folder / "secret", 0o644)
    ways = f"""
    ln -s {folder}/secret link; ln -s /proc/1/root/{folder}/secret proc; ln -s / everything
    for way in link proc everything/{folder}/secret \\
        /proc/self/root/{folder}/secret /proc/1/root/{folder}/secret /proc/1/cwd/{folder}/secret \\
        /proc/self/cwd/../{folder}/secret /../../{folder}/secret \\
        /proc/[0-9]*/root/{folder}/secret /proc/[0-9]*/fd/*/{folder}/secret; do cat "$way"; done
    """
    async with sandbox_in(folder) as sandbox:
        assert (await sandbox.exec(ways)).stdout == b""
        for kernel in ("/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/mem", "/proc/1/mem"):
            assert (await sandbox.exec(f"head -c 1 {kernel}")).stdout == b""
        for knob in ("sysrq-trigger", "sys/kernel/core_pattern", "sys/vm/drop_caches"):
            assert (await sandbox.exec(f"echo 1 > /proc/{knob}")).exit_code != 0
        assert await output(sandbox, "ls /sys 2> /dev/null | wc -l") == "0"
        for link in ("link", "proc", "everything"):
            with pytest.raises(OSError, match="link"):
                await sandbox.download(f"/app/{link}", folder / "stolen")
        assert not (folder / "stolen").exists()


@by_both_users
async def test_signals_reach_nobody_outside(folder: Path):
    mark = f"67.{uuid.uuid4().int % 10**9}"
    outside = await asyncio.create_subprocess_exec("sleep", mark)
    async with sandbox_in(folder, "a") as one, sandbox_in(folder, "b") as neighbour:
        await neighbour.exec(f"sleep {mark} &")
        assert await appeared(mark, 2)
        await one.exec(f"kill -9 -1; kill -9 {outside.pid} -{outside.pid}; kill -9 $(seq 2 3000)")
        assert outside.returncode is None
        assert len(processes_with(mark)) == 2
        assert await output(neighbour, "echo works") == "works"
        assert mark not in await output(one, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    outside.kill()
    await outside.wait()


SERVE = """
import socket, time
tcp = socket.create_server(("127.0.0.1", 4000))
unix = socket.socket(socket.AF_UNIX); unix.bind("\\0neighbour"); unix.listen()
print("listening", flush=True); time.sleep(60)
"""
REACH = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", 4000)), (socket.AF_UNIX, "\\0neighbour")):
    try:
        socket.socket(family).connect(address); print("reached")
    except OSError as error:
        print("refused")
for address in ("10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "192.0.2.1"):
    try:
        socket.create_connection((address, 80), timeout=1); print("reached")
    except OSError as error:
        print("refused")
"""


@by_both_users
async def test_neither_neighbours_nor_networks_answer(folder: Path):
    async with sandbox_in(folder, "a") as neighbour, sandbox_in(folder, "b") as one:
        await neighbour.exec(f"python3 -c '{SERVE}' > served &")
        assert "listening" in await output(neighbour, "until grep listening served; do :; done")
        seen = await one.exec("python3 -", stdin=REACH.encode())
        assert seen.stdout.decode().split() == ["refused"] * 7
        own = await neighbour.exec("python3 -", stdin=REACH.encode())
        assert own.stdout.decode().split() == ["reached"] * 2 + ["refused"] * 5


@by_both_users
async def test_there_is_no_more_to_become(folder: Path):
    async with sandbox_in(folder) as sandbox:
        for attempt in (
            "unshare --user true",
            "unshare --mount true",
            "mount -t tmpfs none /tmp",
            "mount -o remount,rw /",
            "umount /app",
            "chroot /app /bin/true",
            "mknod device b 254 0",
            "mknod device c 1 1",
            "su -c true < /dev/null",
            "echo > /run/rsigym/supervisor.pyz",
            "chmod 777 /run/rsigym/supervisor.pyz",
            "rm -rf /run/rsigym/supervisor.pyz",
            "touch /usr/bin/python3",
            "touch /etc/ld.so.preload",
            "mv /app /elsewhere",
            "ulimit -c unlimited",
        ):
            assert (await sandbox.exec(attempt)).exit_code != 0, attempt
        assert await output(sandbox, "cp /usr/bin/id x; chmod 4755 x; ./x -u") == "1000"
        status = await output(sandbox, "cat /proc/self/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert int(fields["CapEff"], 16) == 0
        mounts = (await output(sandbox, "cut -d' ' -f6 /proc/self/mountinfo")).splitlines()
        assert all("nosuid" in options.split(",") for options in mounts)
        await sandbox.exec("mkdir dump; cd dump; kill -SEGV $$")
        assert await output(sandbox, "ls -A dump") == ""


BOMBS = {
    "forks": "f() { f | f & }; f; sleep 2",
    "memory": "python3 -c 'x = []\nwhile 1: x.append(bytearray(1 << 20))'",
    "disk": "for d in /app /tmp /home/user /logs /tests /dev/shm; do cat /dev/zero > $d/x; done",
    "output": "yes & yes >&2",
    "processors": "for n in 1 2 3 4; do (while :; do :; done) & done; wait",
}


@pytest.mark.parametrize("kind", BOMBS)
@by_both_users
async def test_taking_all_there_is_takes_nothing_from_a_neighbour(folder: Path, kind: str):
    async with sandbox_in(folder, "a") as bombed, sandbox_in(folder, "b") as neighbour:
        running = asyncio.create_task(bombed.exec(BOMBS[kind], timeout_s=1))
        while not running.done():
            assert await output(neighbour, "echo works | tee works") == "works"
        assert len(running.result().stdout) <= LIMITS.output_bytes + 100
        await bombed.kill_all()
        assert await output(bombed, "echo works") == "works"


@by_both_users
async def test_ten_thousand_files_are_made_listed_and_brought_out(folder: Path):
    async with sandbox_in(folder) as sandbox:
        await output(sandbox, "mkdir many && cd many && seq 10000 | xargs touch")
        assert await output(sandbox, "ls many | wc -l") == "10000"
        assert await sandbox.download("/app/many", folder / "many") == []
        assert len(os.listdir(folder / "many")) == 10_000


@by_both_users
async def test_a_share_of_the_processors_can_be_set(folder: Path):
    """Where this user may make cgroups; elsewhere the limit is reported as not bounded."""
    if not cgroup_bounds_cpus():
        return
    async with sandbox_in(folder, limits=Limits(cpus=0.1)) as sandbox:
        spent = await sandbox.exec("python3 -", stdin=SPIN.encode())
        assert float(spent.stdout) < 0.5


SPIN = """
import time
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
print(time.process_time())
"""
