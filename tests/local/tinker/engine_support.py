"""What the engine's tests share: engines on tiny models, data, and transformers as the judge."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from rsigym.local.tinker.engine import AdamSpec, Datum, Engine, LoraSpec
from tests.tiny_model import make_tiny_model

VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-linear-rope": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "llama3-rope": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 256,
        }
    },
    "llama-biased": {"attention_bias": True},
    "mistral": {"model_type": "mistral", "architectures": ["MistralForCausalLM"]},
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
    "qwen3": {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "tie_word_embeddings": False,
    },
}
"""One model of each kind the engine supports, as `make_tiny_model` takes them."""


@contextmanager
def running_engine(folder: Path) -> Iterator[Engine]:
    """A float32 engine on one processor thread."""
    engine = Engine("tiny", folder, dtype="float32", threads=1)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def tiny_engine(folder: Path, **config: Any) -> Iterator[Engine]:
    """An engine on a tiny model written into `folder`."""
    with running_engine(make_tiny_model(folder, **config)) as engine:
        yield engine


def hugging_face(folder: Path) -> Any:
    """The same folder in transformers, float32."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def prompt(length: int, seed: int = 0) -> np.ndarray:
    """Random tokens of the tiny model, none of them special."""
    return np.random.default_rng(seed).integers(3, 380, length).astype(np.int32)


def datum(length: int, seed: int = 0, weights: np.ndarray | None = None) -> Datum:
    """A random sequence for next-token prediction."""
    tokens = prompt(length + 1, seed)
    inputs = {"target_tokens": tokens[1:].astype(np.int64)}
    if weights is not None:
        inputs["weights"] = weights
    return Datum(tokens[:-1], inputs)


def train_away(engine: Engine, adapter: str, folder: Path, *, seed: int = 0) -> Path:
    """Train an adapter until it clearly differs from the base model, and save it."""
    engine.create(adapter, LoraSpec(4, seed=seed)).result()
    for step in range(3):
        engine.forward_backward(adapter, [datum(24, seed + step)], "cross_entropy", {})
        engine.optim_step(adapter, AdamSpec(1e-2))
    engine.save(adapter, folder, optimizer=False).result()
    return folder
