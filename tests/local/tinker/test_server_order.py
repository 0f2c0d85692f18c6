"""The order of a model's requests, whatever order they arrive in."""

import asyncio
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.local.tinker.futures import Answer, Promises, Turns, json_answer
from rsigym.local.tinker.refusal import Refusal


@given(st.permutations(range(1, 8)), st.lists(st.integers(1, 7)))
def test_requests_are_carried_out_once_each_and_in_order(
    arrivals: list[int], repeats: list[int]
) -> None:
    async def run() -> list[int]:
        turns, done = Turns(), list[int]()

        async def request(number: int) -> None:
            async with turns.turn(number):
                await asyncio.sleep(0)
                done.append(number)

        async with asyncio.TaskGroup() as group:
            for number in [*arrivals, *repeats]:
                if turns.admit(number):
                    group.create_task(request(number))
                await asyncio.sleep(0)
        return done

    assert asyncio.run(run()) == list(range(1, 8))


def test_a_request_whose_predecessor_never_comes_is_failed_not_left_hanging() -> None:
    async def run() -> list[str]:
        turns, said = Turns(gap_s=0.05), list[str]()

        async def request(number: int) -> None:
            turns.admit(number)
            try:
                async with turns.turn(number):
                    said.append(f"{number} ran")
            except Refusal as refusal:
                said.append(refusal.message)

        await asyncio.gather(request(1), request(3))
        await request(2)
        await request(4)
        return said

    ran, failed, late, then = asyncio.run(run())
    assert "waited 0.05 s for request 2, which was never sent" in failed
    assert (ran, late, then) == ("1 ran", "2 ran", "4 ran")


def test_a_failed_turn_lets_the_next_one_through() -> None:
    async def run() -> None:
        turns = Turns()
        turns.admit(1)
        with pytest.raises(ZeroDivisionError):
            async with turns.turn(1):
                raise ZeroDivisionError
        turns.admit(2)
        async with turns.turn(2):
            pass

    asyncio.run(run())


def test_a_promise_that_breaks_is_answered_as_the_servers_fault() -> None:
    async def run() -> tuple[bytes, bytes, bytes]:
        promises = Promises()

        async def broken() -> None:
            raise KeyError("x")

        async def endless() -> None:
            await asyncio.sleep(3600)

        promises.make("a", broken)  # pyright: ignore[reportArgumentType]
        promises.make("b", endless)  # pyright: ignore[reportArgumentType]
        promises.make("c", lambda: asyncio.sleep(0, json_answer({"loss": float("nan")})))
        answer, pending = await promises.wait("a", 1), await promises.wait("b", 0.01)
        assert pending is None
        promises.cancel_all()
        cancelled, kept = await promises.wait("b", 1), await promises.wait("c", 1)
        assert answer is not None
        assert cancelled is not None
        assert kept is not None
        return answer.body, cancelled.body, kept.body

    broken, cancelled, kept = asyncio.run(run())
    assert broken == b'{"error": "KeyError: \'x\'", "category": "server"}'
    assert b'"category": "user"' in cancelled
    assert kept == b'{"loss": NaN}'


def test_a_request_that_is_cancelled_before_it_begins_gives_up_its_turn() -> None:
    async def run() -> bytes:
        turns, promises = Turns(gap_s=0.05), Promises()

        async def request(number: int) -> Answer:
            async with turns.turn(number):
                return json_answer({"ran": number})

        for number in (1, 2):
            turns.admit(number)
            promises.make(str(number), partial(request, number))
            if number == 1:
                promises.cancel("1")
        answer = await promises.wait("2", 10)
        assert answer is not None
        return answer.body

    assert asyncio.run(run()) == b'{"ran": 2}'
