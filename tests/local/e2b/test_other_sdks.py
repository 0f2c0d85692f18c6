"""The same server for an older Python SDK and for the JavaScript one; `scripts/setup` gets them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.e2b.sdk import Endpoint

_HERE = Path(__file__).parent
_TOOLS = Path(__file__).parents[3] / ".tools"
_OLDER = "2.20.2"


def run(command: list[str], endpoint: Endpoint, **environment: str) -> None:
    pointed = {
        "E2B_API_URL": endpoint.api_url,
        "E2B_SANDBOX_URL": endpoint.sandbox_url,
        "E2B_API_KEY": endpoint.api_key,
    }
    done = subprocess.run(
        command,
        env={**os.environ, **pointed, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr


def test_an_older_python_sdk(endpoint: Endpoint) -> None:
    folder = _TOOLS / f"e2b-{_OLDER}"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: run scripts/setup")
    command = [sys.executable, "-P", str(_HERE / "smoke.py"), _OLDER]
    run(command, endpoint, PYTHONPATH=str(folder))


def test_the_javascript_sdk(endpoint: Endpoint) -> None:
    modules = _TOOLS / "e2b-js" / "node_modules"
    if not modules.is_dir() or shutil.which("node") is None:
        pytest.skip(f"{modules} or node is not there: install node and run scripts/setup")
    run(["node", str(_HERE / "smoke.cjs")], endpoint, NODE_PATH=str(modules))
