"""Where a run's ledger is, and what an operator is told who named a database that is none."""

import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rsigym.platform.errors import OperatorError
from rsigym.platform.ledger import Balance
from rsigym.platform.open_ledger import has_ledger, open_ledger
from tests.postgres_server import PASSWORD

SECRET = "swordfish"


@pytest.fixture(autouse=True)
def without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RSIGYM_DATABASE_URL", raising=False)


def test_a_run_has_a_file_of_its_own(tmp_path: Path) -> None:
    assert not has_ledger(tmp_path)
    with closing(open_ledger(tmp_path)) as ledger:
        ledger.open("run", 5)
    assert has_ledger(tmp_path)
    assert (tmp_path / "ledger.sqlite").exists()


def test_an_operator_can_name_a_database_instead(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSIGYM_DATABASE_URL", postgres_url.replace("postgresql:", "postgres:"))
    assert has_ledger(tmp_path)
    with closing(open_ledger(tmp_path)) as ledger:
        ledger.open("named", 5)
    assert not (tmp_path / "ledger.sqlite").exists()
    with closing(open_ledger(postgres_url)) as ledger:
        assert ledger.balance("named") == Balance(5, 0, 0)


def test_a_run_that_began_in_a_file_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_ledger(tmp_path)) as ledger:
        ledger.open("run", 5)
    monkeypatch.setenv("RSIGYM_DATABASE_URL", "postgresql://nowhere.invalid/x")
    with closing(open_ledger(tmp_path)) as ledger:
        assert ledger.balance("run") == Balance(5, 0, 0)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"postgresql://me:{SECRET}@127.0.0.1:1/x", r"//me:\*\*\*@127.0.0.1:1/x cannot be used"),
        (f"postgresql://me:{SECRET}@no.invalid/x", "cannot be used: .*no.invalid"),
        (f"postgresql://me@127.0.0.1:1/x?password={SECRET}", "cannot be used"),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/x?nonsense={SECRET}", "cannot be used: .*nonsense"),
        (f"postgresql://me:{SECRET}@127.0.0.1:port/x", "cannot be read as a URL"),
        (f"me:{SECRET}@127.0.0.1", "cannot be read as a URL"),
        (f"mysql://me:{SECRET}@127.0.0.1/x", "must be postgresql://.*begins with 'mysql'"),
        (f"postgresql+asyncpg://me:{SECRET}@h/x", "begins with 'postgresql.asyncpg'"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence_without_its_password(
    url: str, says: str
) -> None:
    with pytest.raises(OperatorError, match=says) as raised:
        open_ledger(url)
    assert "\n" not in str(raised.value)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_wrong_password_is_not_repeated(postgres_url: str) -> None:
    with pytest.raises(OperatorError, match="password authentication failed") as raised:
        open_ledger(postgres_url.replace(PASSWORD, SECRET))
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_file_that_is_no_ledger_is_the_operators_to_mend(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_text("what is this?" * 100)
    with pytest.raises(OperatorError, match="cannot be opened: file is not a database"):
        open_ledger(tmp_path)


@pytest.fixture
def admin(postgres_url: str) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def test_a_connection_that_the_server_dropped_is_replaced(
    postgres_url: str, admin: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    with closing(open_ledger(postgres_url)) as ledger:
        ledger.open("dropped", 100)
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        assert ledger.hold("dropped", "dropped/1", 10)
        assert ledger.balance("dropped") == Balance(100, 0, 10)


def test_the_tables_leave_a_database_as_it_was(
    postgres_url: str, admin: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    """They are in a schema of their own, so that no table of the operator's is in the way."""
    admin.execute("CREATE TABLE public.accounts (mine int)")
    with closing(open_ledger(postgres_url)) as ledger:
        ledger.open("apart", 7)
    assert admin.execute("SELECT count(*) FROM public.accounts").fetchone() == (0,)
    row = admin.execute("SELECT budget FROM rsigym.accounts WHERE account = 'apart'").fetchone()
    assert row == (7,)
