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
    """Log-probability of each target, float32 [n], without gradient."""
    out = torch.empty(len(targets))
    for start, rows in _chunks(hidden):
        logits = delta.linear(unembed, rows).float()
        chosen = logits.gather(1, targets[start : start + len(rows), None])[:, 0]
        out[start : start + len(rows)] = chosen - logits.logsumexp(1)
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
    """Log-probability of each target, float32 [n], differentiable."""
    pair = trained.pairs.get(unembed.site.index)
    matrices = () if pair is None else (pair.a, *pair.b)
    return _Score.apply(hidden, unembed, targets, trained.adapter.scale, *matrices)


def _chunks(hidden: Tensor) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, len(hidden), CHUNK):
        yield start, hidden[start : start + CHUNK]


class _Score(torch.autograd.Function):
    """log softmax of the targets; keeps the probabilities, in place of the logits, for backward.

    With p the probabilities, d logprob / d logits = onehot(target) - p.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, unembed: Linear, targets: Tensor, scale: float, *ab: Tensor
    ) -> Tensor:
        a, b = (matrix.to(hidden.dtype) for matrix in ab) if ab else (None, None)
        low = F.linear(hidden, a) if a is not None else None
        out = torch.empty(len(targets))
        kept: list[Tensor] = []
        for start, rows in _chunks(hidden):
            end = start + len(rows)
            logits = unembed(rows)
            if low is not None and b is not None:
                logits.addmm_(low[start:end], b.t(), alpha=scale)
            logits = logits.float()
            normaliser = logits.logsumexp(1)
            out[start:end] = logits.gather(1, targets[start:end, None])[:, 0] - normaliser
            kept.append(logits.sub_(normaliser[:, None]).exp_().to(hidden.dtype))
        ctx.save_for_backward(hidden, targets, *kept)
        ctx.unembed, ctx.scale, ctx.low, ctx.a, ctx.b = unembed, scale, low, a, b
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        hidden, targets, *kept = ctx.saved_tensors
        grad = grad.to(hidden.dtype)
        dhidden = torch.empty_like(hidden)
        low = ctx.low
        dlow = None if low is None else torch.empty_like(low)
        db = None if ctx.b is None else torch.zeros_like(ctx.b, dtype=torch.float32)
        start = 0
        for probabilities in kept:
            end = start + len(probabilities)
            weight = grad[start:end, None]
            # Not in place: the probabilities would be wrong for a second backward pass.
            dlogits = probabilities * -weight
            dlogits.scatter_add_(1, targets[start:end, None], weight)
            torch.mm(dlogits, ctx.unembed.weight, out=dhidden[start:end])
            if low is not None and dlow is not None and db is not None:
                torch.mm(dlogits, ctx.b, out=dlow[start:end])
                db += dlogits.t() @ low[start:end]
            start = end
        if dlow is None or db is None:
            return dhidden, None, None, None
        dlow.mul_(ctx.scale)
        dhidden.addmm_(dlow, ctx.a)
        return dhidden, None, None, None, (dlow.t() @ hidden).float(), db.mul_(ctx.scale)
