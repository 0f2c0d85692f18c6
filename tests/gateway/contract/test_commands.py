"""The same tests, through the proxy."""

from tests.local.e2b.test_commands import *  # noqa: F403
