"""The ledger: nothing is overdrawn, nothing is booked twice, nothing is lost."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.ledger import Balance, Hold, Item
from rsigym.platform.sqlite_ledger import SQLiteLedger


def tokens(quantity: int, price: int = 1) -> Item:
    return Item("inference", "sample", quantity, "token", price)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SQLiteLedger]:
    ledger = SQLiteLedger(tmp_path / "ledger.sqlite")
    ledger.open("run", 1000)
    yield ledger
    ledger.close()


def test_a_hold_reserves_and_a_settlement_books_what_it_really_cost(ledger: SQLiteLedger) -> None:
    ledger.hold("run", "a", 300)
    assert ledger.balance("run") == Balance(1000, 0, 300)
    assert ledger.settle("a", [tokens(20, 7), tokens(3)]) == 143
    assert ledger.balance("run") == Balance(1000, 143, 0)
    assert [entry.item for entry in ledger.entries("run")] == [tokens(20, 7), tokens(3)]


def test_a_hold_beyond_what_is_free_is_refused_and_changes_nothing(ledger: SQLiteLedger) -> None:
    ledger.hold("run", "a", 600)
    with pytest.raises(BudgetExhausted) as refused:
        ledger.hold("run", "b", 401)
    assert (refused.value.needed, refused.value.available) == (401, 400)
    assert ledger.balance("run") == Balance(1000, 0, 600)
    assert ledger.open_holds("run") == [Hold("run", "a", 600)]


def test_the_first_settlement_of_a_call_stands(ledger: SQLiteLedger) -> None:
    ledger.hold("run", "a", 300)
    assert ledger.settle("a", [tokens(100)]) == 100
    assert ledger.settle("a", [tokens(250)]) == 100
    ledger.release("a")
    assert ledger.balance("run") == Balance(1000, 100, 0)


def test_holding_again_under_the_same_id_changes_nothing(ledger: SQLiteLedger) -> None:
    ledger.hold("run", "a", 300)
    ledger.hold("run", "a", 300)
    ledger.settle("a", [])
    ledger.hold("run", "a", 300)
    assert ledger.balance("run") == Balance(1000, 0, 0)


def test_a_cost_above_the_hold_is_booked_and_reported(ledger: SQLiteLedger) -> None:
    ledger.hold("run", "a", 10)
    ledger.settle("a", [tokens(25)])
    assert ledger.balance("run").spent == 25
    assert ledger.overdraft("run") == 15


def test_an_account_without_a_budget_is_not_limited(ledger: SQLiteLedger) -> None:
    ledger.open("official", None)
    ledger.hold("official", "x", 10**15)
    assert ledger.balance("official") == Balance(None, 0, 10**15)
    assert ledger.balance("run").held == 0


def test_opening_an_account_again_keeps_what_it_has(ledger: SQLiteLedger) -> None:
    ledger.hold("run", "a", 300)
    ledger.open("run", 5)
    assert ledger.balance("run") == Balance(1000, 0, 300)


def test_what_was_booked_and_held_is_there_after_reopening(tmp_path: Path) -> None:
    first = SQLiteLedger(tmp_path / "ledger.sqlite")
    first.open("run", 1000)
    first.hold("run", "a", 300)
    first.hold("run", "b", 200)
    first.settle("b", [tokens(50)])
    first.close()
    second = SQLiteLedger(tmp_path / "ledger.sqlite")
    assert second.balance("run") == Balance(1000, 50, 300)
    assert second.open_holds("run") == [Hold("run", "a", 300)]
    second.close()


def test_of_many_threads_exactly_the_affordable_calls_run(ledger: SQLiteLedger) -> None:
    def buy(number: int) -> bool:
        try:
            ledger.hold("run", f"call-{number}", 10)
        except BudgetExhausted:
            return False
        ledger.settle(f"call-{number}", [tokens(10)])
        return True

    with ThreadPoolExecutor(16) as pool:
        bought = sum(pool.map(buy, range(400)))
    assert bought == 100
    assert ledger.balance("run") == Balance(1000, 1000, 0)


def test_negative_amounts_are_refused(ledger: SQLiteLedger) -> None:
    with pytest.raises(ValueError, match="negative"):
        ledger.hold("run", "a", -1)
    ledger.hold("run", "a", 1)
    with pytest.raises(ValueError, match="negative"):
        ledger.settle("a", [tokens(-1)])


class LedgerMachine(RuleBasedStateMachine):
    """Any order of calls: spent + held never exceeds the budget, and the entries add up."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = SQLiteLedger(Path(":memory:"))
        self.ledger.open("run", 1000)
        self.open: dict[str, int] = {}
        self.settled: dict[str, int] = {}

    @rule(worst=st.integers(0, 600))
    def hold(self, worst: int) -> None:
        call = f"c{len(self.open) + len(self.settled)}"
        free = self.ledger.balance("run").free
        assert free is not None
        if worst <= free:
            self.ledger.hold("run", call, worst)
            self.open[call] = worst
        else:
            with pytest.raises(BudgetExhausted):
                self.ledger.hold("run", call, worst)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(sorted(self.open)))
        cost = data.draw(st.integers(0, self.open.pop(call)))
        self.settled[call] = self.ledger.settle(call, [tokens(cost)])
        assert self.settled[call] == cost

    @precondition(lambda self: self.settled)
    @rule(data=st.data())
    def settle_again(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(sorted(self.settled)))
        assert self.ledger.settle(call, [tokens(999)]) == self.settled[call]

    @invariant()
    def adds_up(self) -> None:
        balance = self.ledger.balance("run")
        assert balance.spent == sum(self.settled.values())
        assert balance.held == sum(self.open.values())
        assert balance.spent + balance.held <= 1000
        assert sum(entry.item.amount for entry in self.ledger.entries("run")) == balance.spent

    def teardown(self) -> None:
        self.ledger.close()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
