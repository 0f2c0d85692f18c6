"""The same tests, through the proxy."""

from tests.local.e2b.test_pty import *  # noqa: F403
