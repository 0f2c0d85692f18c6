"""A run that was killed: what it held is settled at the next start, by what the journal tells."""

import json
import os
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from rsigym.platform.errors import OperatorError
from rsigym.platform.journal import JOURNAL, Journal, read_journal
from rsigym.platform.ledger import Balance, Item, Ledger
from rsigym.platform.memory_ledger import MemoryLedger
from rsigym.platform.meter import Meter
from rsigym.platform.outcome import Status
from rsigym.platform.reconcile import Reconciled, reconcile
from tests.platform.killed_run import BUDGET, COST, HELD, call, open_run, run_ledger, work_done

USED = Item("training", "train", 30, "token", 1)


class Folder:
    """A run folder with a ledger that outlives the process that is killed, which it plays."""

    def __init__(self, path: Path):
        self.path = path / JOURNAL
        self.journal = Journal(self.path)
        self.ledger = MemoryLedger()
        self.ledger.open("run", 1000)

    def meter(self, number: int) -> Meter:
        return Meter(self.ledger, "run", f"run/{number:06d}", self.journal)

    def reconcile(self) -> list[Reconciled]:
        return reconcile(self.ledger, "run", self.path)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_what_never_began_is_released(folder: Folder) -> None:
    folder.ledger.hold("run", "run/000001", 100)
    assert folder.reconcile() == [Reconciled("run/000001", "released", 0)]
    assert folder.ledger.balance("run") == Balance(1000, 0, 0)


def test_what_ended_is_settled_at_its_bill(folder: Folder) -> None:
    folder.meter(1).begin("training.submit", 100)
    folder.journal.end("run/000001", [USED])
    assert folder.reconcile() == [Reconciled("run/000001", "settled as recorded", 30)]
    assert [entry.item for entry in folder.ledger.entries("run")] == [USED]
    assert folder.ledger.balance("run") == Balance(1000, 30, 0)


def test_what_may_have_been_done_is_booked_at_what_it_held(folder: Folder) -> None:
    folder.meter(1).begin("training.submit", 100)
    assert folder.reconcile() == [Reconciled("run/000001", "booked at what it held", 100)]
    [entry] = folder.ledger.entries("run")
    assert entry.item == Item("training", "lost at a stop", 100, "nano-USD", 1)
    assert folder.ledger.balance("run") == Balance(1000, 100, 0)


def test_a_piece_of_work_began_with_the_call_that_it_belongs_to(folder: Folder) -> None:
    meter = folder.meter(1)
    meter.begin("training.submit", 100)
    meter.charge(USED)
    meter.settle()
    meter.piece(200)
    assert folder.reconcile() == [Reconciled("run/000001/1", "booked at what it held", 200)]
    assert folder.ledger.balance("run") == Balance(1000, 230, 0)


def test_doing_it_again_changes_nothing(folder: Folder) -> None:
    folder.meter(1).begin("training.submit", 100)
    folder.reconcile()
    assert folder.reconcile() == []
    assert folder.ledger.balance("run") == Balance(1000, 100, 0)


def test_what_was_done_is_noted_in_the_journal(folder: Folder) -> None:
    folder.ledger.hold("run", "run/000007", 100)
    folder.reconcile()
    assert [*read_journal(folder.path)] == [
        {"event": "reconciled", "call": "run/000007", "how": "released", "amount": 0}
    ]


@pytest.mark.parametrize(
    "bill", ["[1]", '[{"service": "x"}]', "null", "[[]]"], ids=["number", "short", "null", "list"]
)
def test_a_bill_that_cannot_be_read_counts_as_none(folder: Folder, bill: str) -> None:
    folder.meter(1).begin("training.submit", 100)
    with folder.path.open("a") as file:
        file.write(f'{{"event": "end", "call": "run/000001", "items": {bill}}}\n')
        file.write('"no event"\n{"event": "end", "call": "run/0000')
    assert folder.reconcile() == [Reconciled("run/000001", "booked at what it held", 100)]
    assert [event["event"] for event in read_journal(folder.path)][-1] == "reconciled"


@pytest.mark.parametrize("field", ["quantity", "unit_price"])
@pytest.mark.parametrize("bad", [-1, 1.5, True, float("nan"), "1", 2**63])
def test_a_bill_that_no_ledger_takes_counts_as_none(
    folder: Folder, field: str, bad: object
) -> None:
    folder.meter(1).begin("training.submit", 100)
    item = {"service": "x", "what": "x", "quantity": 1, "unit": "x", "unit_price": 1, field: bad}
    with folder.path.open("a") as file:
        file.write(json.dumps({"event": "end", "call": "run/000001", "items": [item]}) + "\n")
    assert folder.reconcile() == [Reconciled("run/000001", "booked at what it held", 100)]


def test_without_its_journal_a_run_cannot_be_put_in_order(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be read and written"):
        reconcile(folder.ledger, "run", tmp_path / "missing" / JOURNAL)


@pytest.mark.parametrize(
    ("backend", "kind"), [("sqlite", "plain"), ("sqlite", "long"), ("postgresql", "plain")]
)
def test_a_run_killed_at_any_line_pays_once_for_what_it_did(
    backend: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue("postgres_url") if backend == "postgresql" else None
    root = tmp_path / uuid.uuid4().hex
    root.mkdir()
    killed = subprocess.run(
        [sys.executable, "-m", "tests.platform.killed_run", root, kind, *([url] if url else [])],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    folders = sorted(path for path in root.iterdir() if path.is_dir())
    assert int(killed.stdout) == len(folders) - 1 > 80
    how: set[str] = set()
    for folder in folders:
        with closing(run_ledger(folder, url)) as ledger:
            how |= {each.how for each in put_in_order(folder, ledger)}
            go_on(folder, ledger, kind)
    assert how == {"released", "settled as recorded", "booked at what it held"}


def put_in_order(folder: Path, ledger: Ledger) -> list[Reconciled]:
    """Reconcile a killed run, and hold what its ledger says to what was done."""
    account = folder.name
    before = ledger.balance(account)
    assert before.spent + before.held <= BUDGET
    reconciled = reconcile(ledger, account, folder / JOURNAL)
    after, entries, done = ledger.balance(account), ledger.entries(account), work_done(folder)
    assert after.held == 0
    assert ledger.overdraft(account) == 0
    charged = {entry.call_id: entry.item.amount for entry in entries}
    assert len(charged) == len(entries), "nothing is charged twice"
    assert sum(charged.values()) == after.spent
    assert {*done} <= charged.keys(), "all that was done is charged"
    unknown = {each.call_id for each in reconciled if each.how == "booked at what it held"}
    assert len(unknown) <= 1
    assert charged == {call: HELD if call in unknown else COST for call in charged}
    assert charged.keys() - unknown <= {*done}, "nothing else is"
    assert reconcile(ledger, account, folder / JOURNAL) == []
    return reconciled


def go_on(folder: Path, ledger: Ledger, kind: str) -> None:
    """The next process of the run: its calls are new ones, and are paid."""
    spent, records = ledger.balance(folder.name).spent, {*folder.glob("records/calls/*")}
    with closing(open_run(folder, ledger)) as run:
        outcome = run.call(call(kind))
    assert outcome.status is Status.OK
    assert ledger.balance(folder.name).spent == spent + (COST if kind == "plain" else 3 * COST)
    assert folder / f"records/calls/{outcome.record}.json" not in records
