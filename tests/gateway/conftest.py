"""Proxies in front of one local E2B server, which stands in for the hosted one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rsigym.local.e2b.process import E2BServer
from tests.e2b_server import e2b_server
from tests.gateway.proxied import Proxied

__all__ = ["e2b_server"]

type Open = Callable[..., Proxied]


@pytest.fixture
def open_proxy(e2b_server: E2BServer, tmp_path: Path) -> Iterator[Open]:
    """Opens proxies; at the end nothing of theirs may be left, in any book."""
    opened: list[Proxied] = []

    def make(**settings: Any) -> Proxied:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        opened.append(Proxied(e2b_server, folder, **settings))
        return opened[-1]

    yield make
    for proxied in opened:
        proxied.close()
    assert not opened or opened[0].upstream() == set()


@pytest.fixture
def proxied(open_proxy: Open) -> Proxied:
    return open_proxy()
