"""Folders made once are whole or not there, whoever is killed while making them."""

import asyncio
import os
import sys
import uuid
from pathlib import Path

import pytest

from rsigym.local.sandbox.made_once import made_once, readable_store
from rsigym.platform.errors import OperatorError
from tests.local.sandbox.support import on_loop

KILLED = """
import asyncio, sys
from pathlib import Path
from rsigym.local.sandbox.made_once import made_once

async def make(part):
    part.mkdir()
    (part / "half").touch()
    print("begun", flush=True)
    await asyncio.sleep(300)

asyncio.run(made_once(Path(sys.argv[1]), make))
"""


@on_loop
async def test_what_a_killed_process_left_is_made_anew_by_who_waits_for_it(tmp_path: Path):
    target = tmp_path / "store" / "made"

    async def make(part: Path) -> None:
        os.makedirs(part / "whole")

    words = [sys.executable, "-c", KILLED, str(target)]
    other = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert other.stdout is not None
    assert await other.stdout.readline() == b"begun\n"
    waiting = asyncio.create_task(made_once(target, make))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    other.kill()
    async with asyncio.timeout(20):
        assert await waiting == target
    await other.wait()
    assert os.listdir(target) == ["whole"]
    assert sorted(os.listdir(target.parent)) == ["made", "made.lock"]


@on_loop
async def test_a_failure_leaves_nothing_and_the_next_tries_again(tmp_path: Path):
    target = tmp_path / "store" / "made"

    async def fail(part: Path) -> None:
        os.mkdir(part)
        raise ValueError("half-way")

    async def make(part: Path) -> None:
        os.mkdir(part)

    with pytest.raises(ValueError, match="half-way"):
        await made_once(target, fail)
    assert os.listdir(target.parent) == ["made.lock"]
    assert await made_once(target, make) == target
    assert await made_once(target, fail) == target


def test_a_store_is_where_sandboxes_user_may_enter(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RSIGYM_HOME", str(folder / "home"))
    assert readable_store("templates") == folder / "home/templates"
    if os.geteuid() != 0:
        return  # an ordinary user's sandboxes may enter what that user may
    closed, name = folder / "closed", f"test-{uuid.uuid4().hex}"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("RSIGYM_HOME", str(closed / "home"))
    shared = readable_store(name)
    try:
        assert shared.parent == Path("/var/tmp")
        assert readable_store(name) == shared
        shared.chmod(0o777)
        with pytest.raises(OperatorError, match="not made by this user"):
            readable_store(name)
    finally:
        shared.rmdir()
