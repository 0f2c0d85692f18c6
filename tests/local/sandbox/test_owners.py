"""A process that dies leaves nothing behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation, Limits
from rsigym.local.sandbox.cgroups import Cgroup
from rsigym.local.sandbox.owners import Claim, remove_folder, sweep
from tests.local.sandbox.support import appeared, gone, on_loop, opened

PARENT = """
import asyncio, sys
from pathlib import Path
from rsigym.local.sandbox import Sandbox

async def main(folder, isolation, mark):
    sandbox = Sandbox(Path(folder), isolation=isolation)
    await sandbox.start()
    await sandbox.exec(f"setsid nohup sleep {mark} & (sleep {mark} &) ; sleep 0")
    print("ready", flush=True)
    await sandbox.exec(f"sleep {mark}")

asyncio.run(main(*sys.argv[1:]))
"""


@on_loop
async def test_nothing_survives_a_killed_parent(folder: Path, isolation: Isolation, home: Path):
    mark = f"65.{uuid.uuid4().int % 10**9}"
    words = [sys.executable, "-c", PARENT, str(folder / "dead"), isolation, mark]
    parent = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert await parent.stdout.readline() == b"ready\n"
    assert await appeared(mark, 3)
    parent.kill()
    await parent.wait()
    assert await gone(mark)
    assert (folder / "dead").exists()
    record = json.loads(next((home / "sandboxes").glob("*.json")).read_text())

    async with opened(folder, isolation):
        assert not (folder / "dead").exists()
        # The supervisor is gone when its cgroup is; until then the record is kept.
        while any(map(os.path.exists, record["cgroup"])):
            assert len(list((home / "sandboxes").iterdir())) == 2
            await asyncio.sleep(0.01)
            sweep()
        sweep()
        assert len(list((home / "sandboxes").iterdir())) == 1


@on_loop
async def test_a_living_owners_folder_is_kept(folder: Path, isolation: Isolation):
    async with opened(folder / "one", isolation) as first:
        await first.exec("touch mine")
        async with opened(folder / "two", isolation):
            sweep()
        assert (await first.exec("ls")).stdout == b"mine\n"


def test_a_claim_counts_as_long_as_its_process_lives(tmp_path: Path, home: Path):
    (tmp_path / "kept").mkdir()
    claim = Claim("name", tmp_path / "kept", Cgroup(()))
    sweep()
    assert (tmp_path / "kept").exists()
    claim.release(keep_record=True)
    sweep()
    assert not (tmp_path / "kept").exists()
    assert not list((home / "sandboxes").iterdir())


def test_a_released_claim_is_not_swept(tmp_path: Path):
    (tmp_path / "kept").mkdir()
    Claim("name", tmp_path / "kept", Cgroup(())).release(keep_record=False)
    sweep()
    assert (tmp_path / "kept").exists()


def test_a_child_that_outlives_its_parent_keeps_no_folder_from_being_swept(
    tmp_path: Path, home: Path
):
    (tmp_path / "dead").mkdir()
    claim = Claim("name", tmp_path / "dead", Cgroup(()))
    with subprocess.Popen(["sleep", "60"]) as child:
        claim.release(keep_record=True)
        sweep()
        child.kill()
    assert not (tmp_path / "dead").exists()


def test_a_process_in_the_cgroup_of_a_dead_owner_is_killed(tmp_path: Path, home: Path):
    cgroup = Cgroup.planned("swept-" + uuid.uuid4().hex, Limits())
    if not cgroup.folders:
        pytest.skip("no cgroup can be made here")
    cgroup.create(Limits())
    with subprocess.Popen(["sleep", "60"]) as left:
        cgroup.add(left.pid)
        Claim("name", tmp_path / "dead", cgroup).release(keep_record=True)
        sweep()
        assert left.wait() == -signal.SIGKILL
    sweep()
    assert not any(folder.exists() for folder in cgroup.folders)
    assert not list((home / "sandboxes").iterdir())


def test_a_record_that_is_no_record_stops_nothing(tmp_path: Path, home: Path):
    (tmp_path / "dead").mkdir()
    Claim("name", tmp_path / "dead", Cgroup(())).release(keep_record=True)
    (home / "sandboxes" / "aaa.json").write_text("{")
    sweep()
    assert not (tmp_path / "dead").exists()


def test_links_in_a_removed_folder_are_not_followed(tmp_path: Path):
    (tmp_path / "precious").mkdir(mode=0o500)
    (tmp_path / "dead" / "sub").mkdir(parents=True)
    (tmp_path / "dead" / "sub" / "link").symlink_to(tmp_path / "precious")
    os.chmod(tmp_path / "dead" / "sub", 0o000)
    assert remove_folder(tmp_path / "dead")
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o500
