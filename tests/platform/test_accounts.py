"""A budget for each benchmark: who pays, and that no budget is overdrawn, whatever happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.operations import Operation
from rsigym.operations.run import RunSubmit
from rsigym.operations.training import TrainingSubmit
from rsigym.platform.accounts import Accounts
from rsigym.platform.decision import Found
from rsigym.platform.errors import BadCall, BudgetExhausted
from rsigym.platform.ledger import Item
from rsigym.platform.memory_ledger import MemoryLedger
from rsigym.platform.permissions import Permissions
from rsigym.platform.run import Run
from rsigym.platform.service import Prepared

BUDGET = 100
APART = ("A", "B", "C")


def training(benchmark: str | None = None) -> Operation:
    return TrainingSubmit(data="data.jsonl", benchmark=benchmark)


def nothing_done(found: Found | None = None) -> Prepared:
    return Prepared(lambda meter: {}, found=found)


def test_one_budget_pays_for_everything_whatever_is_named() -> None:
    accounts, ledger = Accounts("run"), MemoryLedger()
    assert accounts.open(ledger, BUDGET) is ledger
    assert accounts.payer_of(training("A"), nothing_done()) == "run"
    assert ledger.balance("run").free == BUDGET


def test_a_call_is_paid_by_the_benchmark_that_it_measures_or_names() -> None:
    accounts = Accounts("run", APART)
    measured = nothing_done(Found("harness", "C"))
    assert accounts.payer_of(training("B"), nothing_done()) == "run/budget/B"
    assert accounts.payer_of(training("B"), measured) == "run/budget/C"
    assert accounts.payer_of(RunSubmit(model="m"), measured) == "run"
    with pytest.raises(BadCall, match="has no budget here; those have: A, B, C"):
        accounts.payer_of(training("D"), nothing_done())


def test_by_default_the_first_benchmark_without_a_submission_pays() -> None:
    submitted: set[str] = set()
    accounts = Accounts("run", APART, submitted.__contains__)
    ledger = accounts.open(MemoryLedger(), BUDGET)
    payers, free = [], []
    for name in APART:
        payers.append(accounts.payer_of(training(), nothing_done()))
        free.append(ledger.balance("run").free)
        submitted.add(name)
        with pytest.raises(BadCall, match="closed with its submission"):
            accounts.payer(name)
    assert payers == ["run/budget/A", "run/budget/B", "run/budget/C"]
    assert free == [3 * BUDGET, 2 * BUDGET, BUDGET]
    assert (ledger.balance("run").free, ledger.balance("run").total) == (0, 3 * BUDGET)
    assert accounts.payer() == "run/budget/C"


def test_a_closed_budget_has_nothing_free() -> None:
    submitted = {"A"}
    accounts = Accounts("run", APART, submitted.__contains__)
    ledger = accounts.open(MemoryLedger(), BUDGET)
    balance = Run("run", None, Permissions(), ledger, {}, accounts=accounts).call(
        {"op": "budget.balance"}
    )
    apart = balance.evidence["by_benchmark"]
    assert isinstance(apart, dict)
    free = {name: each["free_usd"] for name, each in apart.items() if isinstance(each, dict)}
    assert free == {"A": 0, "B": BUDGET / 1e9, "C": BUDGET / 1e9}
    assert balance.evidence["free_usd"] == 2 * BUDGET / 1e9


def item(amount: int) -> Item:
    return Item("training", "train", amount, "token", 1)


steps = st.lists(
    st.tuples(st.sampled_from(APART), st.integers(0, 60), st.integers(0, 60), st.booleans()),
    max_size=40,
)


@given(steps)
def test_no_budget_is_overdrawn_and_the_whole_is_their_sum(
    calls: list[tuple[str, int, int, bool]],
) -> None:
    accounts = Accounts("run", APART)
    ledger = accounts.open(MemoryLedger(), BUDGET)
    for number, (benchmark, worst, cost, settles) in enumerate(calls):
        account = accounts.payer(benchmark)
        free = ledger.balance(account).free
        assert free is not None
        if worst > free:
            with pytest.raises(BudgetExhausted):
                ledger.hold(account, str(number), worst)
            continue
        ledger.hold(account, str(number), worst)
        if settles:
            ledger.settle(str(number), [item(min(cost, worst))])
        parts = [ledger.balance(part) for part in accounts.names]
        assert all(part.spent + part.held <= BUDGET for part in parts)
        whole = ledger.balance("run")
        assert whole.total == len(APART) * BUDGET
        assert whole.spent == sum(part.spent for part in parts)
        assert whole.held == sum(part.held for part in parts)
    assert sum(entry.item.amount for entry in ledger.entries("run")) == ledger.balance("run").spent
    assert sum(ledger.spending("run").values()) == ledger.balance("run").spent
    assert sum(hold.amount for hold in ledger.open_holds("run")) == ledger.balance("run").held
    assert ledger.overdraft("run") == 0
