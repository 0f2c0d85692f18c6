"""Which ledger a run has: PostgreSQL where the operator names one, else SQLite in its folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rsigym.platform.errors import OperatorError
from rsigym.platform.ledger import Ledger

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

__all__ = ["has_ledger", "open_ledger"]

_FILE = "ledger.sqlite"
_URL = "RSIGYM_DATABASE_URL"
_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_SAY = f"{_URL} must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE"


def open_ledger(where: Path | str) -> Ledger:
    """The ledger of a run folder, or of a database.

    A folder that has a `ledger.sqlite` keeps it; otherwise `RSIGYM_DATABASE_URL` decides.

    Args:
        where: A run folder that exists, or the URL of a PostgreSQL database.

    Raises:
        OperatorError: The URL is not valid or its server does not answer, or the file cannot be
            opened. No message shows a password.
    """
    if isinstance(where, str):
        return _open_postgresql(where)
    file, url = where / _FILE, os.environ.get(_URL)
    return _open_postgresql(url) if url and not file.exists() else _open_sqlite(file)


def has_ledger(folder: Path) -> bool:
    """Whether `open_ledger` would open what is there, rather than make a new file."""
    return (folder / _FILE).exists() or bool(os.environ.get(_URL))


def _open_sqlite(file: Path) -> Ledger:
    from sqlalchemy.exc import DatabaseError

    from rsigym.platform.sql_ledger import SQLLedger

    try:
        return SQLLedger.sqlite(file)
    except DatabaseError as error:
        raise OperatorError(f"the ledger {file} cannot be opened: {error.orig}") from error


def _open_postgresql(url: str) -> Ledger:
    from sqlalchemy.exc import DBAPIError

    from rsigym.platform.sql_ledger import SQLLedger

    parsed = _parse(url)
    # Raised `from None` below: the chained error of a driver may quote the whole URL.
    try:
        return SQLLedger.postgresql(parsed)
    except ImportError:  # psycopg, or the library that it wraps
        raise OperatorError(
            "a ledger in PostgreSQL needs psycopg: run `pip install 'rsigym[postgres]'`"
        ) from None
    except DBAPIError as error:
        reason = _without_secrets(" ".join(str(error.orig).split()), parsed)
        shown = parsed.set(drivername="postgresql", query={})
        raise OperatorError(f"the ledger's database {shown} cannot be used: {reason}") from None


def _parse(url: str) -> "URL":
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise OperatorError(f"{_SAY}; it cannot be read as a URL") from None
    if parsed.drivername not in _SCHEMES:
        raise OperatorError(f"{_SAY}; it begins with {parsed.drivername!r}")
    return parsed.set(drivername="postgresql+psycopg")


def _without_secrets(text: str, url: "URL") -> str:
    secrets = [url.password, url.query.get("password")]
    for secret in secrets:
        if isinstance(secret, str) and secret:
            text = text.replace(secret, "***")
    return text
