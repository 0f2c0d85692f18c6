"""Drawing the next token of each row from its logits."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rsigym.local.tinker.specs import SampleSpec

__all__ = ["choose"]

HEAD = 512
"""Likeliest tokens looked at before a whole row is sorted for top_p."""


def choose(
    logits: Tensor, specs: Sequence[SampleSpec], generators: Sequence[np.random.Generator]
) -> tuple[list[int], list[float]]:
    """One token for each row of logits, float32 [rows, vocab], and its log-probability.

    A row's draw depends on its own logits and generator alone, and takes one number from it, so
    that the same seed gives the same sample in any company. Log-probabilities are the model's
    own, before temperature, top_k and top_p.
    """
    tokens = logits.argmax(1)
    drawn = [row for row, spec in enumerate(specs) if spec.temperature > 0]
    whole = [row for row in drawn if specs[row].top_p >= 1 and specs[row].top_k <= 0]
    if whole:
        points = torch.tensor([generators[row].random() for row in whole])
        temperatures = torch.tensor([specs[row].temperature for row in whole])
        tokens[whole] = _draw(logits[whole] / temperatures[:, None], points)
    for row in drawn:
        if specs[row].top_p < 1 or specs[row].top_k > 0:
            point = generators[row].random()
            tokens[row] = _draw_truncated(logits[row] / specs[row].temperature, specs[row], point)
    # One fused pass; logsumexp would make several over the vocabulary.
    logprobs = logits.log_softmax(1).gather(1, tokens[:, None])[:, 0]
    return tokens.tolist(), logprobs.tolist()


def _draw(logits: Tensor, points: Tensor) -> Tensor:
    """The token at which each row's cumulative probability passes its point in [0, 1]."""
    cumulative = logits.softmax(1).cumsum_(1)
    total = cumulative[:, -1:].clone()
    # Below the total, lest rounding pass over every token that has a probability.
    marks = torch.minimum(points[:, None] * total, torch.nextafter(total, torch.zeros(())))
    return torch.searchsorted(cumulative, marks, right=True)[:, 0]


def _draw_truncated(logits: Tensor, spec: SampleSpec, point: float) -> int:
    """top_k first, then top_p of what that leaves, as vLLM and transformers do."""
    k = min(spec.top_k, len(logits)) if spec.top_k > 0 else len(logits)
    if k < len(logits):
        logits, ids = logits.topk(k)
    else:
        ids = torch.arange(k)
    cumulative, order = _descending(logits, min(HEAD, k))
    if cumulative[-1] < spec.top_p:
        cumulative, order = _descending(logits, k)
    size = min(int((cumulative < spec.top_p).sum()) + 1, len(cumulative))
    place = torch.searchsorted(cumulative[:size], point * cumulative[size - 1], right=True)
    return int(ids[order[min(int(place), size - 1)]])


def _descending(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Cumulative probabilities, float64 [count], of the likeliest tokens, and which they are."""
    best = logits.topk(count)
    shares = (best.values - logits.logsumexp(0)).exp()
    return shares.cumsum(0, dtype=torch.float64), best.indices
