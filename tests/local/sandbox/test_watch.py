"""What a sandbox tells of what happens in its folders."""

import asyncio
import errno
import gc
from pathlib import Path
from typing import Literal

import pytest

from rsigym.local.sandbox import Event, Isolation, Watch
from rsigym.platform.errors import ServiceFailure
from tests.local.sandbox.support import on_loop, opened, output


async def until(watch: Watch, name: str) -> list[Event]:
    """The events up to the creation of `name`, which has to come, without that."""
    events = list[Event]()
    async for event in watch:
        if event == Event(name, "create"):
            return events
        events.append(event)
    raise AssertionError(events)


@on_loop
async def test_each_kind_of_event_is_told_in_order(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        watch = await sandbox.watch("/app")
        await output(sandbox, "echo x > a; chmod 700 a; mv a b; rm b; mkdir d; touch d/f; mkdir z")
        assert await until(watch, "z") == [
            Event("a", "create"),
            Event("a", "write"),
            Event("a", "chmod"),
            Event("a", "rename"),
            Event("b", "create"),
            Event("b", "remove"),
            Event("d", "create"),
        ]
        await watch.close()
        await watch.close()
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


@on_loop
async def test_a_recursive_watch_knows_new_and_moved_folders(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "mkdir -p old/deep leaves/deep")
        watch = await sandbox.watch("/app", recursive=True)
        await output(sandbox, "echo > old/deep/f; mkdir -p new/sub; echo > new/sub/g; mkdir z1")
        events = await until(watch, "z1")
        assert events[0] == Event("old/deep/f", "create")
        names = ["new", "new/sub", "new/sub/g"]
        created = [event.name for event in events if event.kind == "create"]
        assert created == ["old/deep/f", *names]
        away = sandbox.path("/tmp")
        leave = f"mv leaves {away}; echo > {away}/leaves/deep/i; mv {away}/leaves back"
        await output(sandbox, f"mv new moved; echo > moved/sub/h; rm -r old; {leave}; mkdir z2")
        events = await until(watch, "z2")
        assert events[:2] == [Event("new", "rename"), Event("moved", "create")]
        assert Event("moved/sub/h", "create") in events
        assert not any(event.name.startswith("new/") for event in events)
        assert Event("leaves/deep/i", "create") not in events
        removed = [e.name for e in events if e.kind == "remove" and e.name.startswith("old")]
        assert removed == ["old/deep/f", "old/deep", "old"]


@on_loop
async def test_nothing_in_a_growing_tree_is_missed_or_told_twice(
    tmp_path: Path, isolation: Isolation
):
    grow = "for i in {1..40}; do mkdir -p t/$i/a/b; echo > t/$i/a/b/f; echo > t/$i/g; done"
    async with opened(tmp_path, isolation) as sandbox:
        watch = await sandbox.watch("/app", recursive=True)
        await output(sandbox, f"{grow}; mkdir z")
        created = [e.name for e in await until(watch, "z") if e.kind == "create"]
        expected = {"t"} | {
            f"t/{n}{below}" for n in range(1, 41) for below in ("", "/a", "/a/b", "/a/b/f", "/g")
        }
        assert set(created) == expected
        assert len(created) == len(expected)


@on_loop
@pytest.mark.parametrize(("end", "kind"), [("rmdir d", "remove"), ("mv d e", "rename")])
async def test_the_end_of_the_folder_is_the_end_of_the_watch(
    tmp_path: Path, isolation: Isolation, end: str, kind: Literal["remove", "rename"]
):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "mkdir d")
        watch = await sandbox.watch("d")
        await output(sandbox, end)
        assert [event async for event in watch] == [Event("", kind)]


@on_loop
async def test_only_folders_are_watched(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "touch file; mkdir d; ln -s d link")
        with pytest.raises(NotADirectoryError):
            await sandbox.watch("file")
        watch = await sandbox.watch("link")
        await output(sandbox, "mkdir d/z")
        assert await until(watch, "z") == []


@on_loop
async def test_events_that_are_lost_are_an_error(tmp_path: Path, isolation: Isolation):
    flood = "import os\nfor _ in range(100000): os.utime('a'); os.utime('b')"
    async with opened(tmp_path, isolation) as sandbox:
        watch = await sandbox.watch("/app")
        await output(sandbox, f'touch a b; python3 -c "{flood}"')
        with pytest.raises(OSError, match="lost") as raised:
            async for _ in watch:
                pass
        assert raised.value.errno == errno.EOVERFLOW


@on_loop
async def test_too_many_folders_are_refused(tmp_path: Path):
    async with opened(tmp_path, "process") as sandbox:
        await output(sandbox, "seq 5001 | xargs mkdir")
        with pytest.raises(OSError, match=r"too many|No space"):
            await sandbox.watch("/app", recursive=True)


@on_loop
async def test_closing_ends_whoever_waits_and_what_watches(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        watch = await sandbox.watch("/app")
        waiting = asyncio.create_task(until(watch, "never"))
        await output(sandbox, "true")
        assert (await sandbox.usage()).processes == 1
        await watch.close()
        with pytest.raises(AssertionError):
            await waiting
        dropped = await sandbox.watch("/app")
        del dropped
        gc.collect()
        for _ in range(1000):
            if (await sandbox.usage()).processes == 0:
                return
        raise AssertionError("a watching process is left")


@on_loop
async def test_the_end_of_all_processes_is_the_watchs_failure(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        watch = await sandbox.watch("/app")
        await sandbox.kill_all()
        with pytest.raises(ServiceFailure, match="ended"):
            await anext(watch)
