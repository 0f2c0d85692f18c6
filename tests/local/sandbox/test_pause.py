"""A paused sandbox stands still, and goes on where it was."""

import asyncio
from pathlib import Path

from rsigym.local.sandbox import Isolation, Sandbox
from tests.local.sandbox.support import on_loop

_COUNT = "i=0; while true; do i=$((i+1)); echo $i; done > count"


@on_loop
async def test_everything_stops_and_goes_on(isolation: Isolation, folder: Path) -> None:
    async with Sandbox(folder / "s", isolation=isolation) as sandbox:
        await sandbox.pause()  # with nothing to stop
        await sandbox.resume()
        counting = await sandbox.spawn(_COUNT)
        await sandbox.exec("until test -s count; do sleep 0.01; done")
        await sandbox.pause()
        first = await sandbox.exec("cat count | tail -1")  # what is started later runs
        assert (await sandbox.exec("sleep 0.1; cat count | tail -1")).stdout == first.stdout
        await sandbox.resume()
        more = f"test $(tail -1 count) -gt {int(first.stdout)}"
        await sandbox.exec(f"until {more}; do sleep 0.01; done")
        await counting.kill()


@on_loop
async def test_what_is_paused_can_be_killed(isolation: Isolation, folder: Path) -> None:
    async with Sandbox(folder / "s", isolation=isolation) as sandbox:
        sleeping = await sandbox.spawn("sleep 60")
        await sandbox.pause()
        await asyncio.gather(sandbox.kill_all(), sleeping.wait())
        assert (await sandbox.exec("echo on")).stdout == b"on\n"
