"""A bounded JSON value, which is what evidence is."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from rsigym.operations.json_value import MAX_DEPTH, Json, json_size, nests_deeper

__all__ = ["JsonValue"]


class JsonValue(Space[Json]):
    """Every JSON value whose compact UTF-8 text is at most `max_bytes` long.

    Keys are strings, numbers are finite, strings hold no lone surrogates, and lists and dicts lie
    in one another at most `MAX_DEPTH` deep.

    >>> {"steps": [1, 2.5, None]} in JsonValue(100)
    True
    >>> {"loss": float("nan")} in JsonValue(100)
    False
    """

    def __init__(self, max_bytes: int, *, seed: int | np.random.Generator | None = None):
        super().__init__(None, None, seed)
        self.max_bytes = max_bytes

    def sample(self, mask: None = None, probability: None = None) -> Json:
        """A small object."""
        return {f"key{i}": int(self.np_random.integers(100)) for i in range(3)}

    def contains(self, x: Any) -> bool:
        """Whether it is JSON, and small enough."""
        if nests_deeper(x, MAX_DEPTH) or not _is_json(x):
            return False
        size = json_size(x)
        return size is not None and size <= self.max_bytes

    @property
    def is_np_flattenable(self) -> bool:
        """JSON has no array form."""
        return False

    def to_jsonable(self, sample_n: Iterable[Json]) -> list[Any]:
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[Json]:
        return list(sample_n)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonValue) and other.max_bytes == self.max_bytes

    def __repr__(self) -> str:
        return f"JsonValue({self.max_bytes})"


def _is_json(value: Any) -> bool:
    """The exact types that JSON has; tuples and numpy numbers are not among them."""
    match value:
        case None | bool() | str():
            return True
        case int() | float():
            return type(value) in (int, float)
        case list():
            return all(map(_is_json, value))
        case dict():
            return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
        case _:
            return False
