"""One local E2B server, which stands in for the hosted one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rsigym.local.e2b.process import E2BServer, e2b_server
from rsigym.local.sandbox import choose_isolation
from rsigym.platform.errors import OperatorError
from tests.gateway.proxied import Proxied

type Open = Callable[..., Proxied]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[E2BServer]:
    """Skips where there is no bubblewrap."""
    try:
        choose_isolation("bubblewrap")
    except OperatorError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RSIGYM_HOME", str(tmp_path_factory.mktemp("home")))
        with e2b_server() as running:
            yield running


@pytest.fixture
def open_proxy(server: E2BServer, tmp_path: Path) -> Iterator[Open]:
    """Opens proxies; at the end nothing of theirs may be left, in any book."""
    opened: list[Proxied] = []

    def make(**settings: Any) -> Proxied:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        opened.append(Proxied(server, folder, **settings))
        return opened[-1]

    yield make
    for proxied in opened:
        proxied.close()
    assert not opened or opened[0].upstream() == set()


@pytest.fixture
def proxied(open_proxy: Open) -> Proxied:
    return open_proxy()
