"""Log-probabilities over the whole vocabulary, a few positions at a time.

At 49,152 tokens a position's logits are 200 kB in float32: they are never held for a whole batch
beyond what the backward pass needs.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rsigym.local.tinker.lora import Delta, Linear, Trained

__all__ = ["likeliest", "score", "train_score"]

CHUNK = 128
"""Positions whose logits exist at once: 25 MB in float32 for a vocabulary of 49,152."""


def score(unembed: Linear, delta: Delta, hidden: Tensor, targets: Tensor) -> Tensor:
    """Log-probabilities of the targets [n, K] of each position, float32, without gradient."""
    out = torch.empty(targets.shape)
    for start, rows in _chunks(hidden):
        logits = delta.linear(unembed, rows).float()
        chosen = logits.gather(1, targets[start : start + len(rows)])
        out[start : start + len(rows)] = chosen - logits.logsumexp(1, keepdim=True)
    return out


def likeliest(unembed: Linear, delta: Delta, hidden: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Ids int64 [n, k] and log-probabilities float32 [n, k] of the likeliest tokens."""
    ids: list[Tensor] = []
    logprobs: list[Tensor] = []
    for _, rows in _chunks(hidden):
        logits = delta.linear(unembed, rows).float()
        best = logits.topk(k, dim=1)
        ids.append(best.indices)
        logprobs.append(best.values - logits.logsumexp(1, keepdim=True))
    return torch.cat(ids), torch.cat(logprobs)


def train_score(unembed: Linear, trained: Trained, hidden: Tensor, targets: Tensor) -> Tensor:
    """Log-probabilities of the targets [n, K] of each position, float32, differentiable."""
    pair = trained.pairs.get(unembed.site.index)
    # An unembedding that is not adapted has a delta of rank 0.
    a = hidden.new_zeros(0, hidden.shape[1]) if pair is None else pair.a
    b = hidden.new_zeros(len(unembed.weight), 0) if pair is None else pair.b[0]
    return _Score.apply(hidden, a, b, unembed, targets, trained.adapter.scale)


def _chunks(hidden: Tensor) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, len(hidden), CHUNK):
        yield start, hidden[start : start + CHUNK]


class _Score(torch.autograd.Function):
    """log softmax of the targets; keeps the probabilities, in place of the logits, for backward.

    With p the probabilities, d logprob / d logits = onehot(target) - p, for each target.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        a: Tensor,
        b: Tensor,
        unembed: Linear,
        targets: Tensor,
        scale: float,
    ) -> Tensor:
        a, b = a.to(hidden.dtype), b.to(hidden.dtype)
        low = F.linear(hidden, a)
        out = torch.empty(targets.shape)
        kept: list[Tensor] = []
        for start, rows in _chunks(hidden):
            end = start + len(rows)
            logits = unembed(rows).addmm_(low[start:end], b.t(), alpha=scale).float()
            normaliser = logits.logsumexp(1, keepdim=True)
            out[start:end] = logits.gather(1, targets[start:end]) - normaliser
            kept.append(logits.sub_(normaliser).exp_().to(hidden.dtype))
        ctx.save_for_backward(hidden, a, b, low, targets, *kept)
        ctx.unembed, ctx.scale = unembed, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, a, b, low, targets, *kept = ctx.saved_tensors
        grad = grads[0].to(hidden.dtype)
        dhidden, dlow, db = torch.empty_like(hidden), torch.empty_like(low), torch.zeros(b.shape)
        start = 0
        for probabilities in kept:
            end = start + len(probabilities)
            weight = grad[start:end]
            # Not in place: the probabilities would be wrong for a second backward pass.
            dlogits = probabilities * -weight.sum(1, keepdim=True)
            dlogits.scatter_add_(1, targets[start:end], weight)
            torch.mm(dlogits, ctx.unembed.weight, out=dhidden[start:end])
            torch.mm(dlogits, b, out=dlow[start:end])
            db += dlogits.t() @ low[start:end]
            start = end
        dlow.mul_(ctx.scale)
        dhidden.addmm_(dlow, a)
        return dhidden, (dlow.t() @ hidden).float(), db.mul_(ctx.scale), None, None, None
