"""The same tests, through the proxy."""

from tests.local.e2b.test_watch import *  # noqa: F403
