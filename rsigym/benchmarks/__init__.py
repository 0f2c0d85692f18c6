"""Benchmarks: their Harbor tasks, scores from trials, and the RSI-Index."""

from rsigym.benchmarks.benchmark import Benchmark, get, names, register
from rsigym.benchmarks.index import rsi_index, why_undefined
from rsigym.benchmarks.scoring import Score, score

__all__ = ["Benchmark", "Score", "get", "names", "register", "rsi_index", "score", "why_undefined"]
