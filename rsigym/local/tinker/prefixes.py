"""What prompts begin with, read once: keys and values in blocks, the least recently used forgotten.

A block is known by the weights that read it and by every token of its prompt up to its end. Weights
that sampling uses never change: those of a folder that is written anew are another `Adapter`, whose
blocks are others.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile
from weakref import ReferenceType, ref

import numpy as np
from torch import Tensor

from rsigym.local.tinker.cache import PromptCache
from rsigym.local.tinker.lora import Adapter

__all__ = ["BLOCK", "Key", "PrefixCache", "keys_of"]

BLOCK = 16
"""Tokens of a block: how far two prompts agree is rounded down to it."""

type Key = tuple[ReferenceType[Adapter] | None, bytes]
"""The weights, which a key does not keep alive, and a hash of all tokens up to a block's end."""


def keys_of(tokens: Sequence[int], adapter: Adapter | None) -> list[Key]:
    """The keys of a prompt's whole blocks, first to last."""
    weights = None if adapter is None else ref(adapter)
    encoded = np.array(tokens, dtype=np.int32)
    # Not Python's hash: whoever finds a collision would be answered from another's prompt.
    hashed = hashlib.sha256()
    keys: list[Key] = []
    for start in range(0, len(encoded) - BLOCK + 1, BLOCK):
        hashed.update(encoded[start : start + BLOCK].tobytes())
        keys.append((weights, hashed.digest()))
    return keys


class PrefixCache:
    """The blocks last read or used, each [layers, 2, kv_heads, BLOCK, dim].

    Args:
        size: Most blocks that it holds; 0 holds none.
    """

    def __init__(self, size: int):
        self.size = size
        self._blocks: OrderedDict[Key, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def missing(self, keys: Sequence[Key]) -> Key | None:
        """The first block that is not here."""
        return next((key for key in keys if key not in self._blocks), None)

    def find(self, keys: Sequence[Key]) -> list[Tensor]:
        """The leading blocks that are here."""
        found = list(takewhile(self._blocks.__contains__, keys))
        self._touch(found)
        return [self._blocks[key] for key in found]

    def keep(self, keys: Sequence[Key], prompt: PromptCache) -> None:
        """Copy a prompt's leading blocks, as many as there is a place for."""
        keys = keys[: self.size]
        for index, key in enumerate(keys):
            if key not in self._blocks:
                self._blocks[key] = prompt.read(index * BLOCK, (index + 1) * BLOCK)
        self._touch(keys)
        while len(self._blocks) > self.size:
            self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Give the memory back."""
        self._blocks.clear()

    def _touch(self, keys: Sequence[Key]) -> None:
        """Mark as used, the first block last: without it those that follow are of no use."""
        for key in reversed(keys):
            self._blocks.move_to_end(key)
