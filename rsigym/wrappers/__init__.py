"""Gymnasium wrappers of `RSIGymEnv`."""

from rsigym.wrappers.tracks import DataTrack, HarnessTrack, JointTrack, Offline

__all__ = ["DataTrack", "HarnessTrack", "JointTrack", "Offline"]
