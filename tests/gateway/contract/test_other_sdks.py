"""The same tests, through the proxy."""

from tests.local.e2b.test_other_sdks import *  # noqa: F403
