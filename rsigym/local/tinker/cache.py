"""Keys and values of what has been read: one prompt at a time, then rows that decode together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from rsigym.local.tinker.architecture import Architecture

__all__ = ["Chunk", "DecodeCache", "PromptCache", "StepAttention", "bytes_per_token"]

STEP = 64
"""Lengths grow by this many tokens: the copy is then a hundredth of the work between."""


def bytes_per_token(shape: Architecture, dtype: torch.dtype) -> int:
    """Keys and values of one token in all layers."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize


class PromptCache:
    """Keys and values of one prompt while it is read, each layer's [2, kv_heads, tokens, dim].

    A layer's memory is taken when it first writes: a prompt that waits holds none.
    """

    def __init__(self, length: int):
        self.length = length
        self.layers: list[Tensor] = []

    def write(self, layer: int, start: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add k, v [tokens, kv_heads, dim] from `start` on; return all so far, head by head."""
        end = start + len(k)
        if layer == len(self.layers):
            self.layers.append(k.new_empty(2, k.shape[1], self.length, k.shape[2]))
        keys, values = self.layers[layer]
        keys[:, start:end], values[:, start:end] = k.transpose(0, 1), v.transpose(0, 1)
        return keys[:, :end], values[:, :end]

    def resume(self, blocks: Sequence[Tensor]) -> None:
        """Begin with what `read` gave of another prompt, block after block."""
        for parts in zip(*blocks, strict=True):
            _, heads, tokens, dim = parts[0].shape
            layer = parts[0].new_empty(2, heads, self.length, dim)
            torch.cat(parts, dim=2, out=layer[:, :, : len(parts) * tokens])
            self.layers.append(layer)

    def read(self, start: int, end: int) -> Tensor:
        """A copy of tokens [start, end), [layers, 2, kv_heads, tokens, dim]."""
        return torch.stack([layer[:, :, start:end] for layer in self.layers])


class DecodeCache:
    """Keys and values of the rows that decode together, each [2, rows, kv_heads, tokens, dim].

    Rows fill slots 0 … n-1 without gaps, so that attention reads a plain slice: the last row
    moves into a slot that is freed. It grows one layer at a time, and the memory is given back
    when the batch is empty.
    """

    def __init__(self, shape: Architecture, dtype: torch.dtype):
        self.shape = shape
        self.dtype = dtype
        self.clear()

    def clear(self) -> None:
        """Give the memory back."""
        shape = self.shape
        empty = torch.zeros(2, 0, shape.kv_heads, 0, shape.head_dim, dtype=self.dtype)
        self.layers: list[Tensor] = [empty] * shape.layers

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` rows of `length` tokens."""
        _, has_rows, _, has_length, _ = self.layers[0].shape
        if rows <= has_rows and length <= has_length:
            return
        # Rows come one by one, tokens row after row: slots grow by half, lengths by a step.
        new_rows = has_rows if rows <= has_rows else max(rows, has_rows * 3 // 2)
        new_length = has_length if length <= has_length else -(-length // STEP) * STEP
        for index, old in enumerate(self.layers):
            # Zeros, not what memory holds: a masked NaN would still poison the products.
            new = old.new_zeros(2, new_rows, self.shape.kv_heads, new_length, self.shape.head_dim)
            new[:, :has_rows, :, :has_length] = old
            self.layers[index] = new

    def adopt(self, slot: int, prompt: PromptCache) -> None:
        """Copy a prompt that has been read into a slot."""
        for layer, source in zip(self.layers, prompt.layers, strict=True):
            layer[:, slot, :, : prompt.length] = source

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of a slot to another."""
        for layer in self.layers:
            layer[:, target, :, :length] = layer[:, source, :, :length]


@dataclass(frozen=True)
class Chunk:
    """A stretch of a prompt in a flat batch: tokens [start, end) of the prompt, from `offset`."""

    cache: PromptCache
    offset: int
    start: int
    end: int

    @cached_property
    def mask(self) -> Tensor | None:
        """What its tokens see, bool [tokens, end]; None where plain causality says it."""
        if self.start == 0:
            return None
        return torch.ones(self.end - self.start, self.end, dtype=torch.bool).tril(self.start)


class StepAttention:
    """Attention of one sampling step: a token of each decoding row, and chunks of prompts.

    Args:
        cache: With room for every row's new token.
        places: Where in the flat batch each slot's token is.
        lengths: int64 [slots], tokens that each slot holds before this step.
        chunks: The stretches of prompts in the same batch.
    """

    def __init__(
        self, cache: DecodeCache, places: Sequence[int], lengths: Tensor, chunks: Sequence[Chunk]
    ):
        self.cache = cache
        self.lengths = lengths
        self.slots = torch.arange(len(places))
        self.chunks = chunks
        # With one adapter the slots stand in order: a slice, which copies nothing, names them.
        in_order = list(places) == list(range(len(places)))
        self.places = slice(0, len(places)) if in_order else torch.tensor(places)
        longest = int(lengths.max()) + 1 if len(places) else 0
        # Keys past a row's own length are padding. Masks are made once for all layers, and as
        # what is added to the scores, which is what the kernel would turn a bool mask into.
        padding = (torch.arange(longest) > lengths[:, None])[:, None, None]
        self.mask = torch.zeros(padding.shape, dtype=cache.dtype).masked_fill_(padding, -torch.inf)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = torch.empty_like(q)
        if len(self.slots):
            rows = self.places
            out[rows] = self._decode(layer, q[rows], k[rows], v[rows])
        for chunk in self.chunks:
            part = slice(chunk.offset, chunk.offset + chunk.end - chunk.start)
            out[part] = _read(chunk, layer, q[part], k[part], v[part])
        return out.flatten(1)

    def _decode(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        cached = self.cache.layers[layer]
        cached[:, self.slots, :, self.lengths] = torch.stack((k, v), dim=1)
        keys, values = cached
        count, longest = len(self.slots), self.mask.shape[-1]
        # The query heads of one key head stand as its queries: no key is copied.
        grouped = q.reshape(count, k.shape[1], -1, q.shape[2])
        out = F.scaled_dot_product_attention(
            grouped,
            keys[:count, :, :longest],
            values[:count, :, :longest],
            attn_mask=self.mask,
        )
        return out.reshape(q.shape)


def _read(chunk: Chunk, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    keys, values = chunk.cache.write(layer, chunk.start, k, v)
    grouped = q.transpose(0, 1).unflatten(0, (k.shape[1], -1))
    # The query heads of one key head look at the same keys: no key is copied.
    views = [part[:, None].expand(-1, grouped.shape[1], -1, -1) for part in (keys, values)]
    out = F.scaled_dot_product_attention(
        grouped, *views, attn_mask=chunk.mask, is_causal=chunk.mask is None
    )
    return out.flatten(0, 1).transpose(0, 1)
