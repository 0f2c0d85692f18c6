"""A tab: pieces of work that are paid together or not at all, and can always be paid."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.journal import JOURNAL, Journal
from rsigym.platform.ledger import Balance, Item
from rsigym.platform.meter import Meter
from rsigym.platform.reconcile import reconcile
from rsigym.platform.sql_ledger import SQLLedger
from rsigym.platform.tab import Tab


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SQLLedger]:
    ledger = SQLLedger.sqlite(tmp_path / "ledger.sqlite")
    ledger.open("run", 100)
    yield ledger
    ledger.close()


def use(tab: Tab, worst: int, cost: int) -> None:
    piece = tab.piece(worst)
    piece.charge(Item("inference", "sample", cost, "token", 1))
    piece.settle()


@pytest.fixture
def meter(ledger: SQLLedger, tmp_path: Path) -> Meter:
    meter = Meter(ledger, "run", "call", Journal(tmp_path / JOURNAL))
    meter.begin("evaluation.submit", 0)
    return meter


def test_work_is_held_at_its_cost_until_the_tab_is_settled(ledger: SQLLedger, meter: Meter) -> None:
    tab = Tab(meter)
    use(tab, worst=60, cost=10)
    use(tab, worst=90, cost=30)
    assert ledger.balance("run") == Balance(100, 0, 40)
    with pytest.raises(BudgetExhausted):
        tab.piece(61)
    tab.settle()
    assert ledger.balance("run") == Balance(100, 40, 0)
    assert meter.spent == 40
    tab.waive()
    assert ledger.balance("run") == Balance(100, 40, 0)


def test_a_waived_tab_costs_nothing(ledger: SQLLedger, meter: Meter) -> None:
    tab = Tab(meter)
    use(tab, worst=60, cost=10)
    tab.waive()
    assert ledger.balance("run") == Balance(100, 0, 0)
    assert (ledger.entries("run"), meter.spent) == ([], 0)


def test_a_tab_whose_process_dies_is_booked_as_it_stood(
    ledger: SQLLedger, meter: Meter, tmp_path: Path
) -> None:
    use(Tab(meter), worst=60, cost=10)
    reconcile(ledger, "run", tmp_path / JOURNAL)
    assert ledger.balance("run").spent == 10
