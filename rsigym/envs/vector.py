"""Vector envs with the two settings without which they go wrong."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, VectorizeMode
from gymnasium.vector import AutoresetMode, VectorEnv

__all__ = ["make_vec"]

type Wrap = Callable[[gym.Env[Any, Any]], gym.Wrapper[Any, Any, Any, Any]]


def make_vec(
    env_id: str | EnvSpec,
    num_envs: int = 1,
    vectorization_mode: VectorizeMode | str = VectorizeMode.SYNC,
    vector_kwargs: Mapping[str, Any] | None = None,
    wrappers: Sequence[Wrap] = (),
    *,
    autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any]:
    """`gymnasium.make_vec` without shared memory and, by default, without autoreset.

    Shared memory silently corrupts spaces that are not arrays, and autoreset would open a new,
    paid episode on the step after the last one ended.

    Args:
        env_id: A registered id.
        num_envs: How many.
        vectorization_mode: "sync", or "async" for one process each; or, of `-Sim` ids,
            "vector_entry_point": all in arrays, with the menu of `FlatResearch` for actions.
        vector_kwargs: Of Gymnasium's vector env, which "sync" and "async" make; they come first,
            such as `{"context": "spawn"}`, or `{"shared_memory": True}` where all is arrays.
        wrappers: Around each env, with "sync" and "async".
        autoreset_mode: As in Gymnasium, in every mode.
        kwargs: The env's own.
    """
    mode, given = VectorizeMode(vectorization_mode), {**(vector_kwargs or {})}
    # By its name, so that the spec of what is made goes through JSON.
    autoreset = {"autoreset_mode": AutoresetMode(autoreset_mode).value}
    match mode:
        case VectorizeMode.SYNC:
            given = autoreset | given
        case VectorizeMode.ASYNC:
            given = {"shared_memory": False} | autoreset | given
        case VectorizeMode.VECTOR_ENTRY_POINT:
            kwargs |= autoreset
    return gym.make_vec(env_id, num_envs, mode, vector_kwargs=given, wrappers=wrappers, **kwargs)
