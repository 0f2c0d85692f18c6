"""Every ledger: nothing is overdrawn, nothing is booked twice, nothing is lost."""

import itertools
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.ledger import LIMIT, Balance, Hold, Item, Ledger
from rsigym.platform.memory_ledger import MemoryLedger
from rsigym.platform.open_ledger import open_ledger
from rsigym.platform.sql_ledger import SQLLedger

NO_AMOUNTS: list[Any] = [-1, float("nan"), float("inf"), True, 1e300, 1.0, "500", None, LIMIT + 1]


def tokens(quantity: int, price: int = 1) -> Item:
    return Item("inference", "sample", quantity, "token", price)


@pytest.fixture(params=["sqlite", "postgresql", "memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    match request.param:
        case "sqlite":
            ledger = open_ledger(tmp_path)
        case "postgresql":
            ledger = open_ledger(request.getfixturevalue("postgres_url"))
        case _:
            ledger = MemoryLedger()
    yield ledger
    ledger.close()


@pytest.fixture
def run(ledger: Ledger) -> str:
    """An account with 1000 nano-USD, which no other test has: a database is shared."""
    account = uuid.uuid4().hex
    ledger.open(account, 1000)
    return account


def test_spending_is_told_by_service(ledger: Ledger, run: str) -> None:
    sandbox = Item("sandbox", "trial", 5, "millisecond", 11)
    for call, items in {"a": [tokens(20, 7), sandbox], "b": [tokens(3)], "c": []}.items():
        ledger.hold(run, f"{run}/{call}", 300)
        ledger.settle(f"{run}/{call}", items)
    assert ledger.spending(run) == {"inference": 143, "sandbox": 55}


def test_a_hold_reserves_and_a_settlement_books_what_it_really_cost(
    ledger: Ledger, run: str
) -> None:
    assert ledger.hold(run, f"{run}/a", 300)
    assert ledger.balance(run) == Balance(1000, 0, 300)
    assert ledger.settle(f"{run}/a", [tokens(20, 7), tokens(3)]) == 143
    assert ledger.balance(run) == Balance(1000, 143, 0)
    entries = ledger.entries(run)
    assert [entry.item for entry in entries] == [tokens(20, 7), tokens(3)]
    assert {(entry.account, entry.call_id) for entry in entries} == {(run, f"{run}/a")}


def test_a_hold_beyond_what_is_free_is_refused_and_changes_nothing(
    ledger: Ledger, run: str
) -> None:
    ledger.hold(run, f"{run}/a", 600)
    with pytest.raises(BudgetExhausted) as refused:
        ledger.hold(run, f"{run}/b", 401)
    assert (refused.value.needed, refused.value.available) == (401, 400)
    assert ledger.balance(run) == Balance(1000, 0, 600)
    assert ledger.open_holds(run) == [Hold(run, f"{run}/a", 600)]
    assert ledger.hold(run, f"{run}/b", 400), "the refused id is as good as new"


def test_the_first_settlement_of_a_call_stands(ledger: Ledger, run: str) -> None:
    ledger.hold(run, f"{run}/a", 300)
    assert ledger.settle(f"{run}/a", [tokens(100)]) == 100
    assert ledger.settle(f"{run}/a", [tokens(250)]) == 100
    ledger.release(f"{run}/a")
    assert ledger.balance(run) == Balance(1000, 100, 0)
    assert len(ledger.entries(run)) == 1


def test_holding_again_under_the_same_id_changes_nothing_and_says_so(
    ledger: Ledger, run: str
) -> None:
    assert ledger.hold(run, f"{run}/a", 300)
    assert not ledger.hold(run, f"{run}/a", 300)
    assert not ledger.hold(run, f"{run}/a", 5000)
    ledger.release(f"{run}/a")
    assert not ledger.hold(run, f"{run}/a", 300)
    assert ledger.balance(run) == Balance(1000, 0, 0)


def test_a_hold_is_lowered_and_never_raised(ledger: Ledger, run: str) -> None:
    ledger.hold(run, f"{run}/a", 300)
    ledger.lower(f"{run}/a", 100)
    assert ledger.balance(run) == Balance(1000, 0, 100)
    ledger.lower(f"{run}/a", 200)
    assert ledger.open_holds(run) == [Hold(run, f"{run}/a", 100)]
    assert ledger.settle(f"{run}/a", [tokens(60)]) == 60
    ledger.lower(f"{run}/a", 10)
    assert ledger.balance(run) == Balance(1000, 60, 0)
    assert ledger.overdraft(run) == 0


def test_a_cost_above_the_hold_is_booked_and_reported(ledger: Ledger, run: str) -> None:
    ledger.hold(run, f"{run}/a", 10)
    ledger.settle(f"{run}/a", [tokens(1025)])
    assert ledger.balance(run) == Balance(1000, 1025, 0)
    assert ledger.balance(run).free == 0
    assert ledger.overdraft(run) == 1015
    with pytest.raises(BudgetExhausted):
        ledger.hold(run, f"{run}/b", 0)


def test_an_account_without_a_budget_is_limited_by_the_largest_amount_alone(
    ledger: Ledger, run: str
) -> None:
    ledger.open(f"{run}/official", None)
    ledger.hold(f"{run}/official", f"{run}/x", LIMIT)
    assert ledger.balance(f"{run}/official") == Balance(None, 0, LIMIT)
    with pytest.raises(BudgetExhausted):
        ledger.hold(f"{run}/official", f"{run}/y", LIMIT)
    assert ledger.settle(f"{run}/x", [tokens(LIMIT)]) == LIMIT
    assert ledger.balance(run).held == 0


def test_a_budget_of_nothing_holds_nothing_but_what_is_free(ledger: Ledger, run: str) -> None:
    ledger.open(f"{run}/poor", 0)
    assert ledger.hold(f"{run}/poor", f"{run}/gift", 0)
    with pytest.raises(BudgetExhausted):
        ledger.hold(f"{run}/poor", f"{run}/paid", 1)


def test_opening_an_account_again_keeps_what_it_has(ledger: Ledger, run: str) -> None:
    ledger.hold(run, f"{run}/a", 300)
    ledger.open(run, 5)
    assert ledger.balance(run) == Balance(1000, 0, 300)


def test_what_the_ledger_does_not_know_is_an_error(ledger: Ledger, run: str) -> None:
    for ask in (ledger.balance, ledger.overdraft, ledger.release):
        with pytest.raises(KeyError):
            ask("nobody")
    with pytest.raises(KeyError):
        ledger.hold("nobody", f"{run}/a", 1)
    with pytest.raises(KeyError):
        ledger.settle(f"{run}/a", [])
    with pytest.raises(KeyError):
        ledger.lower(f"{run}/a", 0)
    assert ledger.entries("nobody") == []
    assert ledger.spending("nobody") == {}
    assert ledger.open_holds("nobody") == []


@pytest.mark.parametrize("bad", NO_AMOUNTS, ids=repr)
def test_what_is_no_amount_is_refused_at_every_door_and_changes_nothing(
    ledger: Ledger, run: str, bad: Any
) -> None:
    ledger.hold(run, f"{run}/held", 100)
    doors: list[Callable[[], object]] = [
        lambda: ledger.hold(run, f"{run}/new", bad),
        lambda: ledger.lower(f"{run}/held", bad),
        lambda: ledger.settle(f"{run}/held", [tokens(1), tokens(bad)]),
        lambda: ledger.settle(f"{run}/held", [tokens(0, bad)]),
    ]
    if bad is not None:
        doors.append(lambda: ledger.open(f"{run}/new", bad))
    for door in doors:
        with pytest.raises((TypeError, ValueError)):
            door()
    assert ledger.balance(run) == Balance(1000, 0, 100)
    assert ledger.entries(run) == []


def test_a_bill_larger_than_any_amount_is_refused(ledger: Ledger, run: str) -> None:
    ledger.hold(run, f"{run}/a", 1)
    for bill in ([tokens(2**40, 2**40)], [tokens(LIMIT), tokens(1)]):
        with pytest.raises(ValueError, match="a cost is between"):
            ledger.settle(f"{run}/a", bill)
    assert ledger.balance(run) == Balance(1000, 0, 1)


def test_of_many_calls_by_many_threads_exactly_the_affordable_ones_run(
    ledger: Ledger, run: str
) -> None:
    """16 threads, 1,000 calls each, and money for 100 of them all."""
    start = Barrier(16)

    def buy(thread: int) -> int:
        start.wait()
        bought = 0
        for number in range(1000):
            call = f"{run}/{thread}-{number}"
            try:
                ledger.hold(run, call, 10)
            except BudgetExhausted:
                continue
            ledger.settle(call, [tokens(10)])
            bought += 1
        return bought

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(buy, range(16))) == 100
    assert ledger.balance(run) == Balance(1000, 1000, 0)
    assert len(ledger.entries(run)) == 100


def test_of_threads_that_begin_or_end_the_same_call_one_does(ledger: Ledger, run: str) -> None:
    def at_once[T](work: Callable[[int], T]) -> list[T]:
        start = Barrier(8)

        def one(thread: int) -> T:
            start.wait()
            return work(thread)

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(one, range(8)))

    for number in range(10):
        call = f"{run}/{number}"
        assert sum(at_once(lambda _, call=call: ledger.hold(run, call, 50))) == 1
        assert ledger.balance(run).held == 50
        costs = at_once(lambda thread, call=call: ledger.settle(call, [tokens(thread + 1)]))
        assert len({*costs}) == 1
        assert ledger.entries(run)[number].item.amount == costs[0]
    assert len(ledger.entries(run)) == 10


class LedgerMachine(RuleBasedStateMachine):
    """Any order of bursts, each of several calls at once on threads of their own.

    Whatever the threads do to each other, `spent + held` stays within the budget, and what the
    ledger says is what the calls were told.
    """

    ledger: Ledger
    pool: ThreadPoolExecutor

    def __init__(self) -> None:
        super().__init__()
        self.account = uuid.uuid4().hex
        self.ledger.open(self.account, 1000)
        self.open: dict[str, int] = {}
        self.settled: dict[str, int] = {}
        self.overdrawn = 0
        self.numbers = itertools.count()

    @rule(worsts=st.lists(st.integers(0, 600), min_size=1, max_size=4))
    def hold(self, worsts: list[int]) -> None:
        calls = {f"{self.account}/{next(self.numbers)}": worst for worst in worsts}
        free = self.ledger.balance(self.account).free
        assert free is not None
        # Each call comes twice at the same time, as if it were retried.
        tried = [(call, self.pool.submit(self._hold, call, calls[call])) for call in [*calls] * 2]
        wait([future for _, future in tried])
        made = [call for call, future in tried if future.result()]
        assert len(made) == len({*made})
        assert sum(calls[call] for call in made) <= free
        refused = [calls[call] for call in calls if call not in made]
        assert all(worst > free - sum(calls[call] for call in made) for worst in refused)
        self.open |= {call: calls[call] for call in made}

    def _hold(self, call: str, worst: int) -> bool:
        try:
            return self.ledger.hold(self.account, call, worst)
        except BudgetExhausted:
            return False

    @rule(
        picks=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 999)), min_size=1, max_size=6)
    )
    def settle(self, picks: list[tuple[int, int]]) -> None:
        ids = [*self.open, *self.settled]
        if not ids:
            return
        # What threads do is no function of what is drawn, so nothing may be drawn by what they did.
        calls = [ids[which % len(ids)] for which, _ in picks]
        # Some cost more than they held.
        costs = [
            much % (self.open.get(call, 0) + 4)
            for call, (_, much) in zip(calls, picks, strict=True)
        ]
        tried = [
            self.pool.submit(self.ledger.settle, call, [tokens(cost)])
            for call, cost in zip(calls, costs, strict=True)
        ]
        for call, future in zip(calls, tried, strict=True):
            cost = future.result()
            assert cost == self.settled.setdefault(call, cost), "it was settled at something else"
            assert call not in self.open or cost in costs
            self.overdrawn += max(0, cost - self.open.pop(call, cost))

    @rule(which=st.integers(0, 99), worst=st.integers(0, 600))
    def lower(self, which: int, worst: int) -> None:
        ids = [*self.open, *self.settled]
        if not ids:
            return
        call = ids[which % len(ids)]
        # At the same time from two threads, as high as before and as low as it is to be.
        wait([self.pool.submit(self.ledger.lower, call, much) for much in (worst, 600)])
        if call in self.open:
            self.open[call] = min(self.open[call], worst)

    @invariant()
    def adds_up(self) -> None:
        balance = self.ledger.balance(self.account)
        assert balance.spent == sum(self.settled.values())
        assert balance.held == sum(self.open.values())
        assert balance.spent + balance.held <= 1000 + self.overdrawn
        assert self.ledger.overdraft(self.account) == self.overdrawn
        entries = self.ledger.entries(self.account)
        assert {entry.call_id: entry.item.amount for entry in entries} == self.settled
        assert len(entries) == len(self.settled)
        assert {hold.call_id: hold.amount for hold in self.ledger.open_holds(self.account)} == (
            self.open
        )


def test_any_interleaving_adds_up(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as threads:
        machine = type("Machine", (LedgerMachine,), {"ledger": ledger, "pool": threads})
        run_state_machine_as_test(
            machine, settings=settings(max_examples=25, stateful_step_count=15, deadline=None)
        )


def test_what_was_booked_and_held_is_there_after_reopening(tmp_path: Path) -> None:
    first = open_ledger(tmp_path)
    first.open("run", 1000)
    first.hold("run", "a", 300)
    first.hold("run", "b", 200)
    first.settle("b", [tokens(50)])
    first.close()
    second = open_ledger(tmp_path)
    assert second.balance("run") == Balance(1000, 50, 300)
    assert second.open_holds("run") == [Hold("run", "a", 300)]
    second.close()


BUYER = """
import sys
from pathlib import Path
from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.ledger import Item
from rsigym.platform.open_ledger import open_ledger

where, account, name = sys.argv[1:]
ledger = open_ledger(where if "://" in where else Path(where))
ledger.open(account, 4000)
print("ready", flush=True)
sys.stdin.readline()
bought = 0
for number in range(250):
    if number == 20:
        print("busy", flush=True)
    try:
        ledger.hold(account, f"{account}/{name}/{number}", 10)
    except BudgetExhausted:
        continue
    ledger.settle(f"{account}/{name}/{number}", [Item("inference", "sample", 10, "token", 1)])
    bought += 1
print(bought, flush=True)
"""


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_processes_share_an_account_and_their_deaths_leave_it_whole(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Four buy at once, and two of them are killed at whatever they are doing just then."""
    where = str(tmp_path) if backend == "sqlite" else request.getfixturevalue("postgres_url")
    account = uuid.uuid4().hex
    names = ("dies-1", "dies-2", "lives-1", "lives-2")
    buyers = {
        name: subprocess.Popen(
            [sys.executable, "-c", BUYER, where, account, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for name in names
    }

    def expect(name: str, line: str) -> None:
        stdout = buyers[name].stdout
        assert stdout is not None
        assert stdout.readline() == line

    def go(*names: str) -> None:
        for name in names:
            stdin = buyers[name].stdin
            assert stdin is not None
            stdin.write("go\n")
            stdin.flush()

    for name in names:
        expect(name, "ready\n")
    go("dies-1", "dies-2")
    expect("dies-1", "busy\n")
    go("lives-1", "lives-2")
    buyers["dies-1"].kill()
    expect("dies-2", "busy\n")
    buyers["dies-2"].kill()
    bought = {
        name: buyer.communicate()[0].split()[-1]
        for name, buyer in buyers.items()
        if "lives" in name
    }
    for name in ("dies-1", "dies-2"):
        assert buyers[name].wait() == -signal.SIGKILL
    ledger = open_ledger(tmp_path if backend == "sqlite" else where)
    balance, left = ledger.balance(account), ledger.open_holds(account)
    assert balance.spent + balance.held == 4000
    assert balance.held == 10 * len(left)
    assert len(left) <= 2
    entries = ledger.entries(account)
    assert len(entries) == len({entry.call_id for entry in entries}) == balance.spent // 10
    for name, count in bought.items():
        assert sum(f"/{name}/" in entry.call_id for entry in entries) == int(count)
    ledger.close()


def test_a_call_may_not_be_charged_to_two_accounts(ledger: Ledger, run: str) -> None:
    ledger.open(f"{run}/other", 1000)
    ledger.hold(run, f"{run}/a", 100)
    assert not ledger.hold(f"{run}/other", f"{run}/a", 100)
    ledger.settle(f"{run}/a", [tokens(100)])
    assert ledger.balance(f"{run}/other") == Balance(1000, 0, 0)


def test_a_memory_ledger_and_a_file_in_memory_are_ledgers() -> None:
    """What the type checker sees too: both are the `Ledger` that everything asks for."""
    ledgers: list[Ledger] = [MemoryLedger(), SQLLedger.sqlite(Path(":memory:"))]
    for ledger in ledgers:
        ledger.close()
        ledger.close()
