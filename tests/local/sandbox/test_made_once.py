"""Folders made once are whole or not there, whoever is killed while making them."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from rsigym.local.sandbox.made_once import made_once
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
