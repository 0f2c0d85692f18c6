"""The contract suite of the local E2B server, with the proxy in front of it."""

from collections.abc import Iterator

import pytest

from rsigym.local.e2b.process import E2BServer
from tests.gateway.proxied import Proxied
from tests.local.e2b.sdk import Endpoint, api, environment, sandbox

__all__ = ["api", "endpoint", "environment", "sandbox"]


@pytest.fixture(scope="session")
def endpoint(e2b_server: E2BServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The control plane by the proxy and a platform key; the data plane directly."""
    proxied = Proxied(e2b_server, tmp_path_factory.mktemp("proxied"))
    run = proxied.run()
    yield Endpoint(run["api_url"], run["sandbox_url"], run["api_key"])
    proxied.close()
