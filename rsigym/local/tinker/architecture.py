"""The shape of a Llama-family decoder, read from a Hugging Face `config.json`."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rsigym.local.tinker.specs import EngineError

__all__ = ["SUPPORTED", "Architecture", "Site"]

SUPPORTED = ("llama", "mistral", "qwen2", "qwen3")
"""`model_type`s that are this decoder with or without biases and query/key norms."""


@dataclass(frozen=True)
class Site:
    """A fused linear layer: projections that read the same input, stacked row after row.

    Attributes:
        index: Its place among the model's sites.
        kind: Which `train_*` flag of `LoraSpec` governs it.
        inputs: Columns.
        modules: Hugging Face names of the projections, such as `model.layers.0.mlp.up_proj`.
        rows: Rows of each of them.
    """

    index: int
    kind: str
    inputs: int
    modules: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Architecture:
    """Sizes and constants of a decoder."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    norm_eps: float
    tied: bool
    rope: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "Architecture":
        """Parse `folder/config.json`.

        Raises:
            EngineError: The model is not of the Llama family, or uses a variant of it that this
                decoder does not compute.
        """
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        _require("model_type", config.get("model_type"), SUPPORTED)
        _require("hidden_act", config.get("hidden_act", "silu"), ("silu",))
        heads = config["num_attention_heads"]
        rope = {"rope_theta": config.get("rope_theta", 10000.0)}
        # Transformers 5 writes `rope_parameters`; earlier files have `rope_theta`/`rope_scaling`.
        rope |= config.get("rope_scaling") or {}
        rope |= config.get("rope_parameters") or {}
        _require("rope type", _rope_type(rope), ("default", "linear", "llama3"))
        return cls(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            inner=config["intermediate_size"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or config["hidden_size"] // heads,
            vocab=config["vocab_size"],
            context=_context(config),
            norm_eps=config["rms_norm_eps"],
            tied=config.get("tie_word_embeddings", False),
            rope=rope,
        )

    def sites(self) -> list[Site]:
        """Every linear layer: four a block, then the unembedding."""
        return [
            Site(index, kind, inputs, tuple(rows), tuple(rows.values()))
            for index, (kind, inputs, rows) in enumerate(self._sites())
        ]

    def _sites(self) -> Iterator[tuple[str, int, dict[str, int]]]:
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        for layer in range(self.layers):
            attention, mlp = f"model.layers.{layer}.self_attn.", f"model.layers.{layer}.mlp."
            qkv = {"q_proj": query, "k_proj": key, "v_proj": key}
            yield "attn", self.hidden, {attention + name: rows for name, rows in qkv.items()}
            yield "attn", query, {attention + "o_proj": self.hidden}
            yield "mlp", self.hidden, {mlp + "gate_proj": self.inner, mlp + "up_proj": self.inner}
            yield "mlp", self.inner, {mlp + "down_proj": self.hidden}
        yield "unembed", self.hidden, {"lm_head": self.vocab}

    def rotary_tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines, float32 [context, head_dim / 2] each."""
        exponents = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        frequencies = 1.0 / self.rope["rope_theta"] ** exponents
        if _rope_type(self.rope) == "linear":
            frequencies = frequencies / self.rope["factor"]
        if _rope_type(self.rope) == "llama3":
            frequencies = _llama3(frequencies, self.rope)
        angles = torch.outer(torch.arange(self.context, dtype=torch.float32), frequencies)
        return angles.cos(), angles.sin()


def _require(what: str, value: Any, supported: tuple[str, ...]) -> None:
    if value not in supported:
        raise EngineError(
            f"{what} {value!r} is not supported by the local Tinker server; "
            f"use a model with one of: {', '.join(supported)}"
        )


def _rope_type(rope: dict[str, Any]) -> str:
    return rope.get("rope_type") or rope.get("type") or "default"


def _context(config: dict[str, Any]) -> int:
    """A sliding window bounds the context: within the window, attention is plain causal."""
    context = config["max_position_embeddings"]
    window = config.get("sliding_window")
    if window is None or not config.get("use_sliding_window", True):
        return context
    return min(context, window)


def _llama3(frequencies: torch.Tensor, rope: dict[str, Any]) -> torch.Tensor:
    """Llama 3.1's stretch: slow waves are slowed by `factor`, fast ones kept, others blended."""
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return keep * frequencies + (1 - keep) * frequencies / rope["factor"]
