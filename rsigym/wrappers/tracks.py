"""The tracks as wrappers: each narrows what the env below it allows, for good.

They combine in any order, and come to the same as the env ids of their names:

>>> env = DataTrack(gym.make("RSIGym/Integers-v0"))  # as RSIGym/Data-Integers-v0

A wrapper rejects nothing by itself. It narrows the permissions of the env itself, in the episode
that is open and in those to come, so that the run refuses whichever way a call takes: around the
wrapper, through `unwrapped`, or through the files of the workspace. The action space, the mask in
`info` and the tool list follow from the same permissions.
"""

from typing import Any, ClassVar

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from rsigym.envs.env import RSIGymEnv
from rsigym.envs.experiment import Experiment
from rsigym.platform.errors import OperatorError
from rsigym.platform.permissions import Permissions
from rsigym.platform.tracks import OFFLINE, Track

__all__ = ["DataTrack", "HarnessTrack", "JointTrack", "Offline"]

type _Env = gym.Env[dict[str, Any], Any]


class _Narrowed(gym.Wrapper[dict[str, Any], Any, dict[str, Any], Any], RecordConstructorArgs):
    """Narrows the env below by permissions that follow from its experiment.

    Args:
        env: An env of rsigym, wrapped or not.

    Raises:
        OperatorError: It is another env.
    """

    def __init__(self, env: _Env):
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        inner = env.unwrapped
        if not isinstance(inner, RSIGymEnv):
            raise OperatorError(f"{type(self).__name__} wraps envs of rsigym, not {inner}")
        inner.narrow(self._permissions(inner.experiment))

    def _permissions(self, experiment: Experiment) -> Permissions:
        raise NotImplementedError


class _Track(_Narrowed):
    track: ClassVar[Track]

    def _permissions(self, experiment: Experiment) -> Permissions:
        return experiment.track_permissions(self.track)


class DataTrack(_Track):
    """Opens the training data; locks every setting of training, the base model and the harness."""

    track = "Data"


class HarnessTrack(_Track):
    """Opens the harness; revokes training and rollouts, and fixes the model."""

    track = "Harness"


class JointTrack(_Track):
    """Opens data, training settings and the harness; locks the base model."""

    track = "Joint"


class Offline(_Narrowed):
    """Keeps sandboxes and trials off the internet, in any track."""

    def _permissions(self, experiment: Experiment) -> Permissions:
        return OFFLINE
