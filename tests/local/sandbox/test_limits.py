"""A sandbox that takes all it can get, beside one that goes on working."""

import asyncio
import os
from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation, Limits, describe_isolation
from tests.local.sandbox.support import on_loop, opened, output

FORK = """
import os, signal
children = []
try:
    while len(children) < 100:
        children.append(os.fork())
        if children[-1] == 0:
            signal.pause()
except BlockingIOError:
    pass
print(len(children))
for child in children:
    os.kill(child, signal.SIGKILL)
"""

EAT_MEMORY = """
blocks = []
try:
    while len(blocks) < 1000:
        blocks.append(bytearray(8 << 20))
except MemoryError:
    pass
print(len(blocks))
"""


@on_loop
async def test_a_fork_bomb_is_contained(tmp_path: Path, bubblewrap: Isolation):
    limits = Limits(processes=60)
    bomb = "f() { f | f & }; f; sleep 2"
    async with (
        opened(tmp_path / "a", bubblewrap, limits) as bombed,
        opened(tmp_path / "b", bubblewrap, limits) as neighbour,
    ):
        running = asyncio.create_task(bombed.exec(bomb, timeout_s=3))
        while not running.done():
            assert await output(neighbour, "echo works") == "works"
        await bombed.kill_all()
        assert await output(bombed, "ls /proc | grep -c '^[0-9]'") in ("3", "4", "5")


@on_loop
async def test_the_process_limit_is_the_sandboxs_own(tmp_path: Path, bubblewrap: Isolation):
    async with (
        opened(tmp_path / "a", bubblewrap, Limits(processes=40)) as one,
        opened(tmp_path / "b", bubblewrap, Limits(processes=200)) as two,
    ):
        first = await one.exec("python3 -", stdin=FORK.encode(), timeout_s=60)
        assert 30 < int(first.stdout) < 40
        second = await two.exec("python3 -", stdin=FORK.encode(), timeout_s=60)
        assert int(second.stdout) == 100


@on_loop
async def test_memory_is_bounded(tmp_path: Path, isolation: Isolation):
    limits = Limits(memory_mb=200)
    async with (
        opened(tmp_path / "a", isolation, limits) as eater,
        opened(tmp_path / "b", isolation, limits) as neighbour,
    ):
        result = await eater.exec("python3 -", stdin=EAT_MEMORY.encode(), timeout_s=60)
        assert result.exit_code == 128 + 9 or int(result.stdout) < 25
        assert await output(neighbour, "echo works") == "works"
        assert await output(eater, "echo works") == "works"


@on_loop
async def test_memory_that_is_only_reserved_is_free(tmp_path: Path, isolation: Isolation):
    reserve = "import mmap; mmap.mmap(-1, 64 << 30, prot=0, flags=mmap.MAP_PRIVATE | 0x4000)"
    async with opened(tmp_path, isolation, Limits(memory_mb=200)) as sandbox:
        assert await output(sandbox, f"python3 -c '{reserve}; print(1)'") == "1"


@on_loop
async def test_files_are_bounded(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation, Limits(file_mb=1)) as sandbox:
        result = await sandbox.exec("head -c 5000000 /dev/zero > big")
        assert result.exit_code != 0
        assert int(await output(sandbox, "stat -c %s big")) == 1 << 20


@on_loop
async def test_shared_memory_is_bounded(tmp_path: Path, bubblewrap: Isolation):
    async with opened(tmp_path, bubblewrap) as sandbox:
        assert (await sandbox.exec("head -c 100M /dev/zero > /dev/shm/x")).exit_code != 0


@on_loop
async def test_cpu_time_is_bounded(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation, Limits(cpu_s=1)) as sandbox:
        result = await sandbox.exec("while :; do :; done", timeout_s=60)
        assert result.exit_code > 128
        assert not result.timed_out


@on_loop
async def test_commands_dump_no_core(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        assert await output(sandbox, "ulimit -c") == "0"


def test_rlimits_leave_out_what_a_cgroup_bounds():
    limits = Limits(memory_mb=1, processes=5, file_mb=2, cpu_s=3)
    both = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 2 << 20, "RLIMIT_CPU": 3}
    assert limits.rlimits(memory=False, processes=False) == both
    alone = both | {"RLIMIT_DATA": 1 << 20, "RLIMIT_NPROC": 5}
    assert limits.rlimits(memory=True, processes=True) == alone


def test_the_report_says_who_and_how(bubblewrap: Isolation):
    report = describe_isolation()
    assert report["isolation"] == bubblewrap
    assert report["as_root"] == (os.geteuid() == 0)
    limits = {"memory", "processes", "cpus", "disk", "file_size", "cpu_time"}
    assert set(report["limits"]) == limits
    assert report["bubblewrap"]["version"]
    assert "kernel is shared" in report["not_protected"]


@pytest.fixture
def without_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rsigym.local.sandbox.cgroups._parents", lambda: ())


@pytest.mark.usefixtures("without_cgroups")
@on_loop
async def test_rlimits_alone_contain_forks_and_memory(tmp_path: Path, bubblewrap: Isolation):
    limits = Limits(processes=60, memory_mb=200)
    async with opened(tmp_path, bubblewrap, limits) as sandbox:
        assert "rlimit" in describe_isolation()["limits"]["memory"]
        eaten = await output(sandbox, f"python3 -c '{EAT_MEMORY}'")
        assert 10 < int(eaten) < 25
        bombed = await sandbox.exec("f() { f | f & }; f; sleep 1", timeout_s=3)
        assert bombed.exit_code in (0, 124)
        await sandbox.kill_all()
        assert await output(sandbox, "echo works") == "works"
