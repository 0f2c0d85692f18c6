"""The same tests, through the proxy."""

from tests.local.e2b.test_files import *  # noqa: F403
