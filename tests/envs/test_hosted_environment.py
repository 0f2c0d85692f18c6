"""What a sandbox at E2B says of itself is what an agent in it lets it say."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from harbor.environments.base import ExecResult

from rsigym.envs.hosted_environment import HostedEnvironment
from rsigym.platform.errors import ServiceFailure


class Told(HostedEnvironment):
    """A sandbox of which only what `du` prints is there."""

    def __init__(self, stdout: str):
        self.stdout = stdout

    async def exec(self, *args: Any, **kwargs: Any) -> ExecResult:  # pyright: ignore
        return ExecResult(stdout=self.stdout, stderr="", return_code=0)


@pytest.mark.parametrize("stdout", ["257\t/logs\n", "9" * 10_000, "no\t/logs", " ", "-1\t/logs"])
def test_logs_of_no_told_size_or_too_large_are_the_harnesss_failure(
    stdout: str, tmp_path: Path
) -> None:
    with pytest.raises(ServiceFailure, match="more than 256 MB") as failed:
        asyncio.run(Told(stdout).download_dir("/logs", tmp_path))
    assert failed.value.side == "harness"
