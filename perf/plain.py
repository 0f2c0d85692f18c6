"""What a competent user writes without the engine: the yardstick of `training` and `sampling`.

The same fused decoder mathematics on padded batches, LoRA and loss by autograd, torch's AdamW, a
static key/value cache. Nothing of the engine is used.
"""

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

__all__ = ["PlainModel"]


class PlainModel:
    """A Llama model without biases and with tied embeddings, as SmolLM2 is.

    Args:
        folder: Its Hugging Face folder.
        dtype: Of the frozen weights.
        rank: Of the LoRA matrices on every linear layer; 0 for none.
    """

    def __init__(self, folder: Path, dtype: torch.dtype, rank: int = 0):
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        tensors = {name: t.to(dtype) for name, t in load_file(folder / "model.safetensors").items()}
        self.head_dim = self.config["head_dim"]
        self.kv_heads = self.config["num_key_value_heads"]
        self.embedding = tensors["model.embed_tokens.weight"]
        self.norm = tensors["model.norm.weight"]
        self.layers = [
            self._layer(tensors, f"model.layers.{i}.")
            for i in range(self.config["num_hidden_layers"])
        ]
        self.rank = rank
        self.scale = 32 / rank if rank else 0.0
        self.parameters: list[Tensor] = []
        if rank:
            for layer in self.layers:
                for name in ("q", "k", "v", "o", "gate", "up", "down"):
                    layer[f"{name}.lora"] = self._lora(*layer[f"{name}.shape"])
            self.head_lora = self._lora(*self.embedding.shape)
        positions = torch.arange(self.config["max_position_embeddings"], dtype=torch.float32)
        steps = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        angles = torch.outer(positions, 1.0 / self.config["rope_theta"] ** steps).repeat(1, 2)
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def _layer(self, tensors: dict[str, Tensor], prefix: str) -> dict[str, Any]:
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        parts = {
            **{name: tensors[f"{attention}{name}_proj.weight"] for name in "qkvo"},
            **{name: tensors[f"{mlp}{name}_proj.weight"] for name in ("gate", "up", "down")},
        }
        return {
            "qkv": torch.cat([parts[name] for name in "qkv"]),
            "o": parts["o"],
            "gate_up": torch.cat([parts["gate"], parts["up"]]),
            "down": parts["down"],
            "norm1": tensors[f"{prefix}input_layernorm.weight"],
            "norm2": tensors[f"{prefix}post_attention_layernorm.weight"],
            **{f"{name}.shape": tuple(weight.shape) for name, weight in parts.items()},
        }

    def _lora(self, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        a = (torch.rand(self.rank, columns) * 2 - 1).mul_(columns**-0.5).requires_grad_()
        b = torch.zeros(rows, self.rank).requires_grad_()
        self.parameters += [a, b]
        return a, b

    def _adapted(self, y: Tensor, x: Tensor, lora: tuple[Tensor, Tensor] | None) -> Tensor:
        if lora is None:
            return y
        a, b = lora
        return y + self.scale * F.linear(F.linear(x, a.to(x.dtype)), b.to(x.dtype))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.config["rms_norm_eps"])

    def _rotate(self, x: Tensor, start: int) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        span = slice(start, start + x.shape[2])
        return x * self.cos[span] + torch.cat((-second, first), dim=-1) * self.sin[span]

    def hidden(self, tokens: Tensor, cache: list[Tensor] | None = None, start: int = 0) -> Tensor:
        """tokens [batch, length] → [batch, length, hidden]; fills `cache` from `start` on."""
        x = F.embedding(tokens, self.embedding)
        for index, layer in enumerate(self.layers):
            normed = self._normed(x, layer["norm1"])
            sizes = [layer[f"{name}.shape"][0] for name in "qkv"]
            parts = F.linear(normed, layer["qkv"]).split(sizes, dim=-1)
            q, k, v = (
                self._adapted(part, normed, layer.get(f"{name}.lora"))
                .unflatten(-1, (-1, self.head_dim))
                .transpose(1, 2)
                for name, part in zip("qkv", parts, strict=True)
            )
            q, k = self._rotate(q, start), self._rotate(k, start)
            if cache is not None:
                end = start + tokens.shape[1]
                cache[index][0][:, :, start:end], cache[index][1][:, :, start:end] = k, v
                k, v = cache[index][0][:, :, :end], cache[index][1][:, :, :end]
            mixed = self._attend(q, k, v)
            x = x + self._adapted(F.linear(mixed, layer["o"]), mixed, layer.get("o.lora"))
            normed = self._normed(x, layer["norm2"])
            gate, up = F.linear(normed, layer["gate_up"]).chunk(2, dim=-1)
            gate = self._adapted(gate, normed, layer.get("gate.lora"))
            up = self._adapted(up, normed, layer.get("up.lora"))
            inner = F.silu(gate) * up
            x = x + self._adapted(F.linear(inner, layer["down"]), inner, layer.get("down.lora"))
        return self._normed(x, self.norm)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        group = q.shape[1] // k.shape[1]
        if q.shape[2] == 1:
            out = F.scaled_dot_product_attention(q.unflatten(1, (-1, group)).squeeze(3), k, v)
            return out.flatten(1)[:, None]
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).flatten(2)

    def loss(self, tokens: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Weighted sum of negative log-likelihoods; logits where a weight is not 0."""
        trained = weights != 0
        hidden = self.hidden(tokens)[trained]
        logits = self._adapted(F.linear(hidden, self.embedding), hidden, self.head_lora)
        nll = F.cross_entropy(logits.float(), targets[trained], reduction="none")
        return (nll * weights[trained]).sum()

    @torch.inference_mode()
    def generate(self, prompts: Tensor, count: int) -> Tensor:
        """Greedy continuations [batch, count] of prompts [batch, length], as one static batch."""
        rows, length = prompts.shape
        shape = 2, rows, self.kv_heads, length + count, self.head_dim
        cache = [torch.zeros(shape, dtype=self.embedding.dtype) for _ in self.layers]
        hidden = self.hidden(prompts, cache)[:, -1]
        out: list[Tensor] = []
        for step in range(count):
            out.append(F.linear(hidden, self.embedding).argmax(-1))
            if step < count - 1:
                hidden = self.hidden(out[-1][:, None], cache, length + step)[:, -1]
        return torch.stack(out, dim=1)
