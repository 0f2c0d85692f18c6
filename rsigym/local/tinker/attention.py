"""Attention within the sequences of a training batch."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["SequenceAttention"]


class SequenceAttention:
    """Causal attention for sequences laid one after the other in a flat batch.

    Sequences are padded on the right for this step alone. Causality keeps the padding out of what
    precedes it, so no mask is needed and the fused kernel applies.
    """

    def __init__(self, lengths: Sequence[int]):
        longest = max(lengths)
        self.shape = len(lengths), longest
        self.places: Tensor | None = None
        if min(lengths) < longest:
            self.places = torch.cat(
                [row * longest + torch.arange(length) for row, length in enumerate(lengths)]
            )

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        del layer
        q, k, v = self._pad(q), self._pad(k), self._pad(v)
        # Expanding is faster on CPU than letting the kernel group the heads.
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        flat = out.transpose(1, 2).flatten(2).flatten(0, 1)
        return flat if self.places is None else flat.index_select(0, self.places)

    def _pad(self, x: Tensor) -> Tensor:
        """[tokens, heads, dim] → [sequences, heads, longest, dim]."""
        if self.places is not None:
            rows, longest = self.shape
            x = x.new_zeros(rows * longest, *x.shape[1:]).index_copy(0, self.places, x)
        return x.view(*self.shape, *x.shape[1:]).transpose(1, 2)
