"""Sandboxes that wait for whoever takes them."""

import asyncio
import os
import signal
import uuid
from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation, Sandbox
from rsigym.local.sandbox.warm import Warm
from rsigym.platform.errors import OperatorError, ServiceFailure
from tests.local.sandbox.support import comes_true, on_loop, output


class Bench:
    """Makes sandboxes and keeps them all, in the order they were made."""

    def __init__(self, folder: Path, isolation: Isolation):
        self.folder = folder
        self.isolation: Isolation = isolation
        self.made: list[Sandbox] = []

    def make(self) -> Sandbox:
        sandbox = Sandbox(self.folder / uuid.uuid4().hex, isolation=self.isolation)
        self.made.append(sandbox)
        return sandbox

    async def alive(self, number: int) -> None:
        """Waits until so many are alive and none is starting."""
        assert await comes_true(
            lambda: len(self.made) == number and all(each.alive for each in self.made)
        )

    def left(self) -> list[str]:
        return os.listdir(self.folder)


@pytest.fixture
def bench(folder: Path, isolation: Isolation) -> Bench:
    return Bench(folder, isolation)


@on_loop
async def test_a_waiting_sandbox_is_taken_without_waiting(bench: Bench):
    warm = Warm(bench.make, 2)
    await bench.alive(2)
    with pytest.raises(StopIteration) as answered:
        warm.take().send(None)  # a coroutine that waited for anything would not be at its end
    taken = bench.made[0]
    assert answered.value.value is taken
    assert await output(taken, "echo works") == "works"
    await bench.alive(3)
    await warm.close()
    assert [each.alive for each in bench.made] == [True, False, False]
    await taken.close()
    assert bench.left() == []


@on_loop
async def test_whoever_finds_none_gets_one_all_the_same(bench: Bench):
    warm = Warm(bench.make, 1)
    taken = await asyncio.gather(*(warm.take() for _ in range(4)))
    assert len(set(taken)) == 4
    assert [await output(each, "echo works") for each in taken] == ["works"] * 4
    await warm.close()
    await asyncio.gather(*(each.close() for each in taken))
    assert bench.left() == []


@on_loop
async def test_nothing_is_started_for_later_while_a_caller_waits(bench: Bench):
    warm = Warm(bench.make, 3)
    takers = [asyncio.create_task(warm.take()) for _ in range(2)]
    while not any(each.done() for each in takers):
        assert len(bench.made) <= 2 + 1  # the fill may have begun one before there were callers
        await asyncio.sleep(0.001)
    for each in takers:
        await (await each).close()
    await warm.close()
    assert bench.left() == []


@on_loop
async def test_one_that_died_while_waiting_is_passed_over(bench: Bench):
    warm = Warm(bench.make, 2)
    await bench.alive(2)
    bench.made[0]._runtime.channel.close()  # pyright: ignore[reportPrivateUsage]
    taken = await warm.take()
    assert taken is bench.made[1]
    await warm.close()
    await taken.close()
    assert bench.left() == []


@on_loop
async def test_a_supervisor_that_is_killed_is_noticed(folder: Path, bubblewrap: Isolation):
    bench = Bench(folder, bubblewrap)
    warm = Warm(bench.make, 1)
    await bench.alive(1)
    process = bench.made[0]._runtime._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    assert await comes_true(lambda: not bench.made[0].alive)
    taken = await warm.take()
    assert await output(taken, "echo works") == "works"
    await warm.close()
    await taken.close()
    assert bench.left() == []


@on_loop
async def test_a_caller_is_told_why_none_can_be_started(folder: Path, isolation: Isolation):
    (folder / "full").write_text("")
    warm = Warm(lambda: Sandbox(folder, isolation=isolation), 1)
    for _ in range(2):
        with pytest.raises(OperatorError, match="not empty"):
            await warm.take()
    await warm.close()


@on_loop
async def test_closing_at_any_moment_leaves_nothing(bench: Bench):
    for n in range(6):
        warm = Warm(bench.make, 2)
        await asyncio.sleep(n * 0.02)
        await warm.close()
        await warm.close()
        with pytest.raises(ServiceFailure, match="closing"):
            await warm.take()
        assert bench.left() == []


@on_loop
async def test_a_take_that_is_cancelled_loses_no_sandbox(bench: Bench):
    for n in range(6):
        warm = Warm(bench.make, 1)
        taking = asyncio.create_task(warm.take())
        await asyncio.sleep(n * 0.02)
        taking.cancel()
        await asyncio.wait({taking})
        if not taking.cancelled():
            await taking.result().close()
        await warm.close()
        assert bench.left() == []


@on_loop
async def test_none_are_kept_where_none_are_wanted(bench: Bench):
    warm = Warm(bench.make, 0)
    taken = await warm.take()
    await taken.close()
    await warm.close()
    assert bench.made == [taken]
