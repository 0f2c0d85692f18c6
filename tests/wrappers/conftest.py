"""The envs that wrappers are tried on are those of tests/envs."""

from tests.envs.conftest import home, open_env, system

__all__ = ["home", "open_env", "system"]
