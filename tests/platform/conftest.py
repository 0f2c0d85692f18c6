"""A PostgreSQL server for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.postgres_server import installed, postgres_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    programs = installed()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # Clients are killed here, machines are not: the disk need not be waited for.
    with postgres_server(programs, "fsync=off") as url:
        yield url
