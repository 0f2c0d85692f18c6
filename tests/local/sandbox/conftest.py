"""Both isolations, and a home of the tests' own."""

from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the claims on sandboxes are kept during a test."""
    monkeypatch.setenv("RSIGYM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(params=["bubblewrap", "process"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    """Each isolation in turn, for what both promise."""
    if request.param == "process":
        return "process"
    return request.getfixturevalue("bubblewrap")
