"""What the tests of sandboxes and of what runs in them share."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation, choose_isolation
from rsigym.platform.errors import OperatorError
from tests.local.sandbox.world import World


@pytest.fixture(scope="session")
def bubblewrap() -> Isolation:
    """Skips where there is no bubblewrap."""
    try:
        return choose_isolation("bubblewrap")
    except OperatorError as error:
        pytest.skip(str(error))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user may enter, so that root's sandboxes keep their files in it too."""
    made = Path(tempfile.mkdtemp(dir="/var/tmp"))
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """Skips where no network namespaces can be made."""
    if os.geteuid() != 0:
        pytest.skip("only root can make network namespaces of its own")
    try:
        made = World()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    yield made
    made.close()
