"""The tracks: presets of permissions, which are all that tracks differ in."""

from typing import Literal

from rsigym.platform.permissions import (
    CHECKPOINTS,
    InferenceGrant,
    Permissions,
    TrainingGrant,
)

__all__ = ["Track", "track_permissions"]

type Track = Literal["Joint"]


def track_permissions(track: Track | None, model: str, benchmarks: tuple[str, ...]) -> Permissions:
    """What a track allows around the initial model; None is the open environment.

    Joint leaves data, training settings and the harness open, and locks the base model.
    """
    open_permissions = Permissions.model_validate({"evaluation": {"benchmarks": benchmarks}})
    if track is None:
        return open_permissions
    return open_permissions & Permissions(
        training=TrainingGrant(lock={"base_model": model}),
        inference=InferenceGrant(models=(model, CHECKPOINTS)),
    )
