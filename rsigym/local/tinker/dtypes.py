"""The floating-point type a model is computed in."""

import time
from typing import Literal

import torch
import torch.nn.functional as F

__all__ = ["choose_dtype"]

GAIN = 1.2
"""bfloat16 costs precision: it has to be at least this much faster."""


def choose_dtype(dtype: Literal["auto", "float32", "bfloat16"]) -> torch.dtype:
    """The named type; "auto" measures (in under a second) whether bfloat16 pays here.

    It does where the processor multiplies it in hardware (AMX, AVX512-BF16), and is several times
    slower than float32 elsewhere.
    """
    if dtype != "auto":
        return getattr(torch, dtype)
    pays = _seconds(torch.float32) > GAIN * _seconds(torch.bfloat16)
    return torch.bfloat16 if pays else torch.float32


def _seconds(dtype: torch.dtype, repeats: int = 5) -> float:
    """The best time of a product of the size that training makes most."""
    x, weight = torch.ones(512, 576, dtype=dtype), torch.ones(3072, 576, dtype=dtype)
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        F.linear(x, weight)
        times.append(time.perf_counter() - start)
    return min(times)
