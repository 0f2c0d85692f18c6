"""The meter: pieces of long work hold before they run and add up at the root."""

from pathlib import Path

import pytest

from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.ledger import Balance, Item
from rsigym.platform.meter import Meter
from rsigym.platform.sql_ledger import SQLLedger


def step(tokens: int) -> Item:
    return Item("training", "train", tokens, "token", 1)


def test_pieces_hold_ahead_settle_and_add_up(tmp_path: Path) -> None:
    ledger = SQLLedger.sqlite(tmp_path / "l.sqlite")
    ledger.open("run", 100)
    ledger.hold("run", "call", 40)
    meter = Meter(ledger, "run", "call")
    meter.charge(step(40))
    meter.settle()
    second = meter.piece(50)
    assert ledger.balance("run") == Balance(100, 40, 50)
    second.charge(step(30))
    second.settle()
    assert meter.spent == second.spent == 70
    with pytest.raises(BudgetExhausted):
        meter.piece(31)
    assert ledger.balance("run") == Balance(100, 70, 0)
    ledger.close()


def test_settling_twice_books_once(tmp_path: Path) -> None:
    ledger = SQLLedger.sqlite(tmp_path / "l.sqlite")
    ledger.open("run", 100)
    ledger.hold("run", "call", 40)
    meter = Meter(ledger, "run", "call")
    meter.charge(step(10))
    assert meter.settle() == meter.settle() == 10
    assert meter.spent == ledger.balance("run").spent == 10
    ledger.close()
