"""One loop in the background, from any thread and from inside other loops."""

import asyncio
import threading

import pytest

from rsigym.services.loop import BackgroundLoop


async def _twice(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_it_runs_from_any_thread_and_from_inside_a_loop(loop: BackgroundLoop) -> None:
    async def inside() -> int:
        return loop.run(_twice(2))

    assert loop.run(_twice(1)) == 2
    assert asyncio.run(inside()) == 4


def test_nothing_starts_before_it_is_used() -> None:
    before = threading.active_count()
    loop = BackgroundLoop()
    assert threading.active_count() == before
    loop.close()


def test_an_exception_reaches_the_caller(loop: BackgroundLoop) -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        loop.run(fail())


def test_closing_cancels_what_runs_and_refuses_the_rest() -> None:
    loop = BackgroundLoop()
    cleaned = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    waiting = loop.submit(wait())
    loop.run(_twice(1))
    loop.close()
    loop.close()
    assert cleaned.is_set()
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="closed"):
        loop.run(_twice(1))
