"""The ids that `import rsigym` registers with Gymnasium."""

from typing import TYPE_CHECKING

import gymnasium as gym

if TYPE_CHECKING:
    from rsigym.platform.tracks import Track

__all__ = ["register_all"]

LOCAL_BENCHMARKS = ("Integers", "Shell", "Choice", "Repair", "Office")
TRACKS: "tuple[Track | None, ...]" = (None, "Data", "Harness", "Joint")


def register_all() -> None:
    """Register every id; twice is fine."""
    for benchmark in LOCAL_BENCHMARKS:
        for track in TRACKS:
            name = f"{track}-{benchmark}" if track else benchmark
            _register(f"RSIGym/{name}-v0", track, (benchmark,), offline=False)
            _register(f"RSIGym/{name}-Offline-v0", track, (benchmark,), offline=True)


def _register(
    env_id: str, track: "Track | None", benchmarks: tuple[str, ...], *, offline: bool
) -> None:
    if env_id in gym.registry:
        return
    gym.register(
        env_id,
        entry_point="rsigym.envs.env:RSIGymEnv",
        nondeterministic=True,
        # Gymnasium's own checker resets and steps what it wraps: here that would be paid work.
        disable_env_checker=True,
        kwargs={"benchmarks": list(benchmarks), "track": track, "offline": offline},
    )
