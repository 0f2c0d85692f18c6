"""The ledger in one SQLite file, in WAL mode: it survives the death of the process."""

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.ledger import Balance, Entry, Hold, Item, total

__all__ = ["SQLiteLedger"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (
    account TEXT PRIMARY KEY, budget INTEGER, spent INTEGER NOT NULL, held INTEGER NOT NULL,
    overdraft INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS holds (
    call_id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts, amount INTEGER NOT NULL,
    settled INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY, account TEXT NOT NULL, call_id TEXT NOT NULL, service TEXT NOT NULL,
    what TEXT NOT NULL, quantity INTEGER NOT NULL, unit TEXT NOT NULL, unit_price INTEGER NOT NULL,
    time REAL NOT NULL) STRICT;
"""


class SQLiteLedger:
    """A `Ledger` in the file `path`; its folder must exist. Other processes may open it too."""

    def __init__(self, path: Path):
        self._lock = threading.Lock()
        self._db = sqlite3.connect(
            path, timeout=60, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Reads and writes as one step, also against other processes."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def open(self, account: str, budget: int | None) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO accounts VALUES (?, ?, 0, 0, 0)", (account, budget))

    def hold(self, account: str, call_id: str, worst: int) -> None:
        if worst < 0:
            raise ValueError(f"a hold cannot be negative: {worst}")
        with self._transaction() as db:
            if db.execute("SELECT 1 FROM holds WHERE call_id = ?", (call_id,)).fetchone():
                return
            free = _balance(db, account).free
            if free is not None and worst > free:
                raise BudgetExhausted(worst, free)
            db.execute("INSERT INTO holds VALUES (?, ?, ?, NULL)", (call_id, account, worst))
            db.execute("UPDATE accounts SET held = held + ? WHERE account = ?", (worst, account))

    def settle(self, call_id: str, items: Sequence[Item]) -> int:
        cost = total(items)
        if any(item.quantity < 0 or item.unit_price < 0 for item in items):
            raise ValueError(f"a charge cannot be negative: {items}")
        with self._transaction() as db:
            account, held, settled = _hold(db, call_id)
            if settled is not None:
                return settled
            now = time.time()
            db.executemany(
                "INSERT INTO entries VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (account, call_id, i.service, i.what, i.quantity, i.unit, i.unit_price, now)
                    for i in items
                ],
            )
            db.execute("UPDATE holds SET settled = ? WHERE call_id = ?", (cost, call_id))
            db.execute(
                "UPDATE accounts SET spent = spent + ?, held = held - ?, overdraft = overdraft + ? "
                "WHERE account = ?",
                (cost, held, max(0, cost - held), account),
            )
        return cost

    def release(self, call_id: str) -> None:
        self.settle(call_id, ())

    def balance(self, account: str) -> Balance:
        with self._lock:
            return _balance(self._db, account)

    def entries(self, account: str) -> list[Entry]:
        with self._lock:
            rows = self._db.execute(
                "SELECT account, call_id, service, what, quantity, unit, unit_price, time "
                "FROM entries WHERE account = ? ORDER BY id",
                (account,),
            ).fetchall()
        return [Entry(row[0], row[1], Item(*row[2:7]), row[7]) for row in rows]

    def open_holds(self, account: str) -> list[Hold]:
        with self._lock:
            rows = self._db.execute(
                "SELECT account, call_id, amount FROM holds "
                "WHERE account = ? AND settled IS NULL ORDER BY rowid",
                (account,),
            ).fetchall()
        return [Hold(*row) for row in rows]

    def overdraft(self, account: str) -> int:
        with self._lock:
            row = self._db.execute(
                "SELECT overdraft FROM accounts WHERE account = ?", (account,)
            ).fetchone()
        return row[0]

    def close(self) -> None:
        with self._lock:
            self._db.close()


def _balance(db: sqlite3.Connection, account: str) -> Balance:
    row = db.execute(
        "SELECT budget, spent, held FROM accounts WHERE account = ?", (account,)
    ).fetchone()
    if row is None:
        raise KeyError(f"no account {account!r}")
    return Balance(*row)


def _hold(db: sqlite3.Connection, call_id: str) -> tuple[str, int, int | None]:
    row = db.execute(
        "SELECT account, amount, settled FROM holds WHERE call_id = ?", (call_id,)
    ).fetchone()
    if row is None:
        raise KeyError(f"nothing is held for call {call_id!r}")
    return row
