"""What a prompt's own tokens are worth to the model, where a request asks."""

import numpy as np
import torch
from torch import Tensor

from rsigym.local.tinker.batch import delta_of
from rsigym.local.tinker.cache import Chunk
from rsigym.local.tinker.logprobs import likeliest, score
from rsigym.local.tinker.lora import Linear
from rsigym.local.tinker.rows import Reading

__all__ = ["score_chunk"]


def score_chunk(reading: Reading, chunk: Chunk, hidden: Tensor, unembed: Linear) -> None:
    """Log-probabilities of the tokens that follow those of the chunk.

    Args:
        hidden: The model's output for the chunk's tokens, [tokens, hidden].
        unembed: The model's last layer.
    """
    request = reading.request
    # Nothing follows the prompt's last token.
    end = min(chunk.end, len(reading.tokens) - 1)
    if end <= chunk.start:
        return
    hidden = hidden[: end - chunk.start]
    adapter = request.adapter
    delta = delta_of([] if adapter is None else [(0, len(hidden), adapter)])
    follows = slice(chunk.start + 1, end + 1)
    if request.spec.prompt_logprobs:
        targets = torch.tensor(reading.tokens[follows])[:, None]
        request.prompt_logprobs[follows] = score(unembed, delta, hidden, targets)[:, 0].numpy()
    if k := request.spec.topk_prompt_logprobs:
        ids, logprobs = likeliest(unembed, delta, hidden, k)
        request.topk_ids[follows] = ids.numpy().astype(np.int32)
        request.topk_logprobs[follows] = logprobs.numpy()
