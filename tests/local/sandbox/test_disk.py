"""The disk that a sandbox has of its own: one bound over all of its folders."""

import os
from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation, Limits, Sandbox, disk
from rsigym.local.sandbox.bubblewrap import find_bubblewrap
from rsigym.local.sandbox.layout import FOLDERS
from tests.local.sandbox.support import on_loop, opened, output

SMALL = Limits(disk_mb=16)
FILL = "head -c 100M /dev/zero > {}/full 2> /dev/null; wc -c < {}/full"


@pytest.fixture(autouse=True)
def own_disk(bubblewrap: Isolation) -> None:
    if not find_bubblewrap().own_disk:
        pytest.skip("this bubblewrap gives no disk")


@on_loop
async def test_it_ends_where_it_was_told_to(tmp_path: Path, bubblewrap: Isolation):
    async with (
        opened(tmp_path / "a", bubblewrap, SMALL) as filled,
        opened(tmp_path / "b", bubblewrap, SMALL) as neighbour,
    ):
        assert 15 << 20 < int(await output(filled, FILL.format("/app", "/app"))) <= 16 << 20
        for name in ("tmp", "home/user", "agent", "solution", "logs"):
            assert int(await output(filled, FILL.format(f"/{name}", f"/{name}"))) == 0
        await output(neighbour, "head -c 10M /dev/zero > here")
        assert await output(filled, "rm full; echo works > there; cat there") == "works"


@on_loop
async def test_whoever_fills_it_leaves_a_verifier_room(tmp_path: Path, bubblewrap: Isolation):
    async with opened(tmp_path, bubblewrap, SMALL) as sandbox:
        await sandbox.exec(FILL.format("/app", "/app"))
        for name in ("tests", "logs/verifier"):
            size = int(await output(sandbox, FILL.format(f"/{name}", f"/{name}")))
            assert 3 << 20 < size <= 4 << 20
        (tmp_path / "test.sh").write_text("echo 1")
        await output(sandbox, "rm /tests/*")
        await sandbox.upload(tmp_path / "test.sh", "/tests/test.sh")
        assert await output(sandbox, "bash /tests/test.sh") == "1"


@on_loop
async def test_it_takes_no_more_than_half_of_the_memory(tmp_path: Path, bubblewrap: Isolation):
    async with opened(tmp_path, bubblewrap, Limits(memory_mb=100)) as sandbox:
        assert await output(sandbox, "df --output=size -m /app | tail -n 1 | tr -d ' '") == "50"


@on_loop
async def test_the_host_keeps_nothing_of_it(folder: Path, bubblewrap: Isolation):
    async with opened(folder, bubblewrap) as sandbox:
        await output(sandbox, "echo mine > /app/mine; mkdir /tmp/deep")
        assert list((folder / "sandbox").rglob("*")) == []
        assert str(folder) not in await output(sandbox, "cat /proc/self/mountinfo")


@on_loop
async def test_folders_can_be_the_hosts_and_then_have_no_end(folder: Path, bubblewrap: Isolation):
    async with opened(folder, bubblewrap, Limits(disk_mb=None)) as sandbox:
        await output(sandbox, "echo mine > /app/mine")
        assert (folder / "sandbox" / "app" / "mine").read_text() == "mine\n"
        assert await output(sandbox, "ls -A /app /home/user /logs | sort") != ""
        assert {f"/{name}" for name in FOLDERS} <= set(
            (await output(sandbox, "cut -d' ' -f5 /proc/self/mountinfo")).split()
        )


@on_loop
async def test_a_host_path_of_bubblewraps_own_name_is_never_shown(
    folder: Path, bubblewrap: Isolation, monkeypatch: pytest.MonkeyPatch
):
    there = lambda path: path == "/newroot" or Path(path).exists()  # noqa: E731
    monkeypatch.setattr(disk.os.path, "lexists", there)
    find_bubblewrap.cache_clear()
    try:
        assert not find_bubblewrap().own_disk
        sandbox = Sandbox(folder / "sandbox", isolation=bubblewrap)
        async with sandbox:
            await output(sandbox, "echo mine > /app/mine")
            assert (folder / "sandbox" / "app" / "mine").exists()
    finally:
        find_bubblewrap.cache_clear()


@on_loop
async def test_a_full_disk_stops_neither_commands_nor_downloads(
    tmp_path: Path, bubblewrap: Isolation
):
    async with opened(tmp_path, bubblewrap, SMALL) as sandbox:
        await sandbox.exec("echo kept > kept; " + FILL.format("/app", "/app"))
        piped = tmp_path / "piped"
        piped.write_bytes(os.urandom(1 << 20))
        counted = await sandbox.exec("wc -c", stdin=piped)
        assert counted.stdout.strip() == b"1048576"
        await sandbox.download("/app/kept", tmp_path / "kept")
        assert (tmp_path / "kept").read_text() == "kept\n"
