"""The tables of the ledger in a database, and every statement about them."""

from dataclasses import dataclass
from typing import Any, Self

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect, Engine
from sqlalchemy.schema import CreateIndex, CreateSchema, CreateTable

from rsigym.platform.ledger import LIMIT

__all__ = ["Statements", "create_tables"]

_metadata = sql.MetaData()

# SQLite's strict tables know 64-bit integers by this name only.
_Integer = sql.BigInteger().with_variant(sql.Integer, "sqlite")
_Seconds = sql.Double().with_variant(sql.REAL, "sqlite")

_accounts = sql.Table(
    "accounts",
    _metadata,
    sql.Column("account", sql.Text, primary_key=True),
    sql.Column("budget", _Integer),
    sql.Column("spent", _Integer, nullable=False),
    sql.Column("held", _Integer, nullable=False),
    sql.Column("overdraft", _Integer, nullable=False),
    sqlite_strict=True,
)
_holds = sql.Table(
    "holds",
    _metadata,
    sql.Column("call_id", sql.Text, primary_key=True),
    sql.Column("account", sql.Text, nullable=False),
    sql.Column("amount", _Integer, nullable=False),
    sql.Column("settled", _Integer),
    sqlite_strict=True,
)
_entries = sql.Table(
    "entries",
    _metadata,
    sql.Column("id", _Integer, primary_key=True),
    sql.Column("account", sql.Text, nullable=False, index=True),
    sql.Column("call_id", sql.Text, nullable=False),
    sql.Column("service", sql.Text, nullable=False),
    sql.Column("what", sql.Text, nullable=False),
    sql.Column("quantity", _Integer, nullable=False),
    sql.Column("unit", sql.Text, nullable=False),
    sql.Column("unit_price", _Integer, nullable=False),
    sql.Column("time", _Seconds, nullable=False),
    sqlite_strict=True,
)

_CREATING = 0x72736967796D
"""The advisory lock of whoever creates the tables: "rsigym" as a number."""


def create_tables(engine: Engine) -> None:
    """Create what is not there yet; several processes may do so at once."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            # `IF NOT EXISTS` alone fails where two create the same thing at the same moment.
            connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATING)))
            connection.execute(CreateSchema("rsigym", if_not_exists=True))
        for table in _metadata.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(CreateIndex(index, if_not_exists=True))


@dataclass(frozen=True, slots=True)
class Statements:
    """Each statement as its database's driver takes it, with named parameters.

    `of` is the account or the call that a statement is about.
    """

    open: str
    insert_hold: str
    add_held: str
    lock_hold: str
    lower_hold: str
    give_back: str
    end_hold: str
    insert_entry: str
    book: str
    balance: str
    settled: str
    entries: str
    spending: str
    open_holds: str
    overdraft: str

    @classmethod
    def compiled(cls, dialect: Dialect) -> Self:
        """The statements in the words of one database."""
        insert = postgresql.insert if dialect.name == "postgresql" else sqlite.insert
        account, hold, entry = _accounts.c, _holds.c, _entries.c
        of = sql.bindparam("of", type_=sql.Text)
        worst, cost, held_before, over = (
            sql.bindparam(name, type_=_Integer) for name in ("worst", "cost", "held_before", "over")
        )
        limit = sql.literal_column(str(LIMIT), _Integer)
        zero = sql.literal_column("0", _Integer)
        free = sql.func.coalesce(account.budget, limit) - account.spent - account.held
        this_account, this_call = account.account == of, hold.call_id == of

        def text(statement: Any, *columns: str) -> str:
            return str(statement.compile(dialect=dialect, column_keys=list(columns) or None))

        return cls(
            open=text(
                insert(_accounts)
                .values(spent=zero, held=zero, overdraft=zero)
                .on_conflict_do_nothing(),
                "account",
                "budget",
            ),
            insert_hold=text(
                insert(_holds).on_conflict_do_nothing(), "call_id", "account", "amount"
            ),
            add_held=text(
                sql.update(_accounts)
                .where(this_account, worst <= free)
                .values(held=account.held + worst)
            ),
            # Locked until the transaction ends: SQLite locks all, and leaves `FOR UPDATE` out.
            lock_hold=text(
                sql.select(hold.account, hold.amount, hold.settled)
                .where(this_call)
                .with_for_update()
            ),
            lower_hold=text(sql.update(_holds).where(this_call).values(amount=worst)),
            give_back=text(
                sql.update(_accounts).where(this_account).values(held=account.held - cost)
            ),
            end_hold=text(
                sql.update(_holds)
                .where(this_call, hold.settled.is_(None))
                .values(settled=cost)
                .returning(hold.account, hold.amount)
            ),
            insert_entry=text(
                sql.insert(_entries).inline(),
                *(each.name for each in _entries.c if each.name != "id"),
            ),
            book=text(
                sql.update(_accounts)
                .where(this_account)
                .values(
                    spent=account.spent + cost,
                    held=account.held - held_before,
                    overdraft=account.overdraft + over,
                )
            ),
            balance=text(
                sql.select(account.budget, account.spent, account.held).where(this_account)
            ),
            settled=text(sql.select(hold.settled).where(this_call)),
            entries=text(
                sql.select(*(each for each in entry if each.name != "id"))
                .where(entry.account == of)
                .order_by(entry.id)
            ),
            spending=text(
                sql.select(entry.service, sql.func.sum(entry.quantity * entry.unit_price))
                .where(entry.account == of)
                .group_by(entry.service)
            ),
            open_holds=text(
                sql.select(hold.account, hold.call_id, hold.amount)
                .where(hold.account == of, hold.settled.is_(None))
                .order_by(hold.call_id)
            ),
            overdraft=text(sql.select(account.overdraft).where(this_account)),
        )
