"""What the engine's tests share: engines on tiny models, data, and transformers as the judge."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from rsigym.local.tinker.engine import AdamSpec, Datum, Engine, LoraSpec, LossConfig, PassResult
from rsigym.local.tinker.lora import ALPHA, Adapter
from rsigym.local.tinker.model import Decoder
from rsigym.local.tinker.optimizer import TrainingState
from rsigym.local.tinker.passes import run_pass
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


def random_state(decoder: Decoder, spec: LoraSpec) -> TrainingState:
    """An adapter whose B is not zero, so that every matrix has a gradient."""
    adapter = Adapter(decoder.architecture, spec)
    adapter.initialise()
    generator = torch.Generator().manual_seed(1)
    adapter.vector.add_(torch.randn(adapter.vector.shape, generator=generator) * 0.02)
    return TrainingState(adapter)


def run_whole(
    decoder: Decoder,
    state: TrainingState,
    data: Sequence[Datum],
    loss: str,
    config: LossConfig | None = None,
) -> PassResult:
    """A forward and backward pass from beginning to end."""
    steps = run_pass(decoder, state, data, loss, config or {}, backward=True)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def merged_logprobs(
    folder: Path, state: TrainingState, data: Sequence[Datum], dtype: torch.dtype
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The adapter's matrices, and the log-probabilities of the data's targets that hang on them.

    Computed by transformers' model with weights W + s B A. Targets may be [T] or [T, K].
    """
    model = hugging_face(folder).to(dtype)
    adapter = state.adapter
    leaves = {
        name: view.to(dtype, copy=True).requires_grad_()
        for name, view in adapter.named(adapter.vector).items()
    }
    weights = dict(model.state_dict())
    for name, a in leaves.items():
        module, _, kind = name.removeprefix("base_model.model.").partition(".lora_")
        if kind.startswith("A"):
            delta = ALPHA / adapter.spec.rank * leaves[name.replace("lora_A", "lora_B")] @ a
            weights[f"{module}.weight"] = weights[f"{module}.weight"] + delta
    logprobs: list[Tensor] = []
    for item in data:
        tokens = torch.from_numpy(item.tokens).long()
        logits = torch.func.functional_call(model, weights, (tokens[None],), tie_weights=False)
        targets = torch.from_numpy(item.loss_inputs["target_tokens"])
        scores = logits.logits[0].log_softmax(-1).gather(1, targets.reshape(len(tokens), -1))
        logprobs.append(scores.reshape(targets.shape))
    return leaves, logprobs


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
