"""The contract suite against a local E2B server.

Whoever runs the same suite against something else gives another `endpoint`: a folder with a
conftest.py like this one, and modules that import the tests (`from tests.local.e2b.test_files
import *`).
"""

from collections.abc import Iterator

import pytest

from rsigym.local.e2b.process import E2BServer, e2b_server
from rsigym.local.sandbox import Isolation
from tests.local.e2b.sdk import Endpoint, api, environment, sandbox

__all__ = ["api", "endpoint", "environment", "sandbox", "server"]


@pytest.fixture(scope="session")
def server(bubblewrap: Isolation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[E2BServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RSIGYM_HOME", str(tmp_path_factory.mktemp("home")))
        with e2b_server() as running:
            yield running


@pytest.fixture(scope="session")
def endpoint(server: E2BServer) -> Endpoint:
    """Where the SDK is pointed."""
    return Endpoint(server.url, server.url, server.api_key)
