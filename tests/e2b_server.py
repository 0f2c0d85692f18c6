"""One local E2B server for a module tree of tests; import `e2b_server` into its conftest."""

from collections.abc import Iterator

import pytest

from rsigym.local.e2b.process import E2BServer
from rsigym.local.e2b.process import e2b_server as start
from rsigym.local.sandbox import choose_isolation
from rsigym.platform.errors import OperatorError

__all__ = ["e2b_server"]


@pytest.fixture(scope="session")
def e2b_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[E2BServer]:
    """Skips where there is no bubblewrap."""
    try:
        choose_isolation("bubblewrap")
    except OperatorError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RSIGYM_HOME", str(tmp_path_factory.mktemp("home")))
        with start() as running:
            yield running
