"""What a verifier's reward file comes to: one number in [0, 1], or none, which is its own fault.

A task's tests write `/logs/verifier/reward.json` or `reward.txt`, and the first counts where both
are there. Harbor 0.26 reads it and refuses what it calls no reward; the rest is decided here:

| the file holds | reward | by |
|---|---|---|
| `reward.txt`: a number, also `1e-1` or with space around it | the number | Harbor |
| `reward.txt`: nothing, words (`true` too), `nan`, `inf`, two numbers | none | Harbor |
| `{"reward": x}`, also with other keys beside it | `x` | here |
| `{"any": x}`, one key | `x` | here |
| `{"a": x, "b": y}`, several keys and no `reward` | none | here |
| `{}` | none | here |
| `true`, `false` as a value | 1, 0 | Harbor |
| a string, null, a list or an object as a value, NaN, Infinity | none | Harbor |
| a value below 0 or above 1, under the key that counts | none | here |
| a number, a string or a list by itself, what is no JSON, nothing | none | Harbor |
| neither file | none | Harbor |

None is an error on the verifier's side, never a zero without a word. A score counts it as 0 and as
missing.
"""

from collections.abc import Mapping

from rsigym.platform.errors import ServiceFailure

__all__ = ["UnreadableReward", "read_reward"]


class UnreadableReward(ServiceFailure):
    """The verifier wrote numbers, and which of them is the reward is not defined."""


def read_reward(rewards: Mapping[str, float]) -> float:
    """The reward among the numbers that a verifier wrote, by name.

    Raises:
        UnreadableReward: There is none.
    """
    if "reward" in rewards:
        value = rewards["reward"]
    elif len(rewards) == 1:
        (value,) = rewards.values()
    else:
        names = ", ".join(sorted(rewards)[:10]) or "nothing"
        raise UnreadableReward(
            f'the verifier has to write one number or one that is named "reward", not {names}',
            side="verifier",
        )
    if not 0 <= value <= 1:
        raise UnreadableReward("a reward is between 0 and 1, and this one is not", side="verifier")
    return float(value)
