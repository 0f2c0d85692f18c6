"""The same tests, through the proxy; two of its answers are its own."""

from typing import Any

import e2b
import pytest

from tests.local.e2b.sdk import Api
from tests.local.e2b.test_control import *  # noqa: F403


def test_a_timeout_can_pause_and_use_can_resume(api: Api) -> None:
    """The proxy does not see use, so nobody would pay for what use resumes."""
    with pytest.raises(e2b.SandboxException, match=r"501.*autoResume"):
        api.Sandbox.create(lifecycle={"on_timeout": "pause", "auto_resume": True})


def test_what_is_not_built_says_so(api: Api, sandbox: Any) -> None:
    with pytest.raises(e2b.SandboxException, match=r"501.*does not support POST .*/snapshots"):
        sandbox.create_snapshot()
    with pytest.raises(e2b.SandboxException, match=r"501.*does not support"):
        sandbox.fork()
    with pytest.raises(e2b.SandboxException, match=r"501.*volumeMounts"):
        api.Sandbox.create(volume_mounts={"/data": "volume"})
    with pytest.raises(e2b.SandboxException, match=r"501.*`network.rules`"):
        sandbox.update_network({"rules": {"a.example": []}})
