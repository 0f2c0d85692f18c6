"""A bounded string of any language."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.spaces import Space

__all__ = ["Unicode"]

_SAMPLED = "abcdefghijklmnopqrstuvwxyz äßéñ中文αβγ😀\n"


class Unicode(Space[str]):
    """Every string of at most `max_length` characters that can be encoded as UTF-8.

    Unlike `gymnasium.spaces.Text` it has no character set to list, so that it is small, and its
    samples are short.

    >>> "hello world, ¡olé!" in Unicode(100)
    True
    >>> "\\ud800" in Unicode(100)
    False
    """

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None):
        super().__init__(None, None, seed)
        if max_length < 0:
            raise ValueError(f"max_length cannot be negative: {max_length}")
        self.max_length = max_length

    def sample(self, mask: None = None, probability: None = None) -> str:
        """A string of at most 16 characters."""
        length = int(self.np_random.integers(min(self.max_length, 16) + 1))
        return "".join(_SAMPLED[i] for i in self.np_random.integers(len(_SAMPLED), size=length))

    def contains(self, x: Any) -> bool:
        """Whether it is a string, short enough, without lone surrogates."""
        return isinstance(x, str) and len(x) <= self.max_length and _encodable(x)

    @property
    def is_np_flattenable(self) -> bool:
        """A string has no array form."""
        return False

    def to_jsonable(self, sample_n: Iterable[str]) -> list[Any]:
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        return list(sample_n)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode) and other.max_length == self.max_length

    def __repr__(self) -> str:
        return f"Unicode({self.max_length})"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
