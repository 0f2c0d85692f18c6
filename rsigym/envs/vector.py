"""Vector envs with the two settings without which they go wrong."""

from typing import Any, Literal

import gymnasium as gym
from gymnasium.vector import AutoresetMode, VectorEnv

__all__ = ["make_vec"]


def make_vec(
    env_id: str,
    num_envs: int = 1,
    vectorization_mode: Literal["sync", "async"] = "sync",
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any]:
    """`gymnasium.make_vec` without shared memory and without autoreset.

    Shared memory silently corrupts spaces that are not arrays, and autoreset would open a new,
    paid episode on the step after the last one ended.

    Args:
        env_id: A registered id.
        num_envs: How many.
        vectorization_mode: "sync", or "async" for one process each.
        kwargs: The env's own.
    """
    vector_kwargs: dict[str, Any] = {"autoreset_mode": AutoresetMode.DISABLED}
    if vectorization_mode == "async":
        vector_kwargs["shared_memory"] = False
    return gym.make_vec(env_id, num_envs, vectorization_mode, vector_kwargs=vector_kwargs, **kwargs)
