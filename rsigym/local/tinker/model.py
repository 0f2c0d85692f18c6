"""A Llama-family decoder in plain torch: Llama, SmolLM2, Mistral, Qwen2, Qwen3.

One forward pass over a flat list of tokens serves training and sampling: sequences are told
apart only by `Attention`, and adapters only by `Delta`. So the linear layers, which are nearly all
of the work, never see padding, and rows of different requests share one product.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rsigym.local.tinker.architecture import Architecture, Site
from rsigym.local.tinker.lora import Delta, Linear
from rsigym.local.tinker.specs import EngineError

__all__ = ["Attention", "Decoder"]


class Attention(Protocol):
    """Which tokens of a pass see which."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [tokens, heads, dim]; k, v [tokens, kv_heads, dim] → [tokens, heads * dim]."""
        ...


@dataclass(frozen=True)
class Block:
    """The frozen weights of one layer; `q_norm` and `k_norm` are Qwen3's."""

    index: int
    qkv: Linear
    o: Linear
    gate_up: Linear
    down: Linear
    attention_norm: Tensor
    mlp_norm: Tensor
    q_norm: Tensor | None
    k_norm: Tensor | None


class Decoder:
    """A model folder's weights, frozen, in `dtype`.

    Raises:
        EngineError: The folder's model is not supported or its weights are not complete.
    """

    def __init__(self, folder: Path, dtype: torch.dtype):
        self.architecture = Architecture.read(folder)
        self.dtype = dtype
        tensors = _read_tensors(folder, dtype)
        sites = self.architecture.sites()
        try:
            self.embedding = tensors["model.embed_tokens.weight"]
            if self.architecture.tied:
                tensors["lm_head.weight"] = self.embedding
            self.norm = tensors["model.norm.weight"]
            self.blocks = [
                _block(index, sites[4 * index : 4 * index + 4], tensors)
                for index in range(self.architecture.layers)
            ]
            self.unembed = _linear(sites[-1], tensors)
        except KeyError as missing:
            raise EngineError(
                f"{folder} has no weights named {missing}: the model folder is not complete, "
                "download it again"
            ) from None
        self.cos, self.sin = (table.to(dtype) for table in self.architecture.rotary_tables())

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        attention: Attention,
        delta: Delta,
        *,
        recompute: bool = False,
    ) -> Tensor:
        """The last layer's normed output for each token, [tokens, hidden].

        Args:
            tokens: int64 [tokens], of all sequences one after the other.
            positions: int64 [tokens], each token's place in its sequence.
            recompute: Keep only each layer's input for the backward pass and compute the layer
                again there: a third more work, a tenth of the memory.
        """
        rotary = self.cos[positions, None], self.sin[positions, None]
        x = F.embedding(tokens, self.embedding)
        for block in self.blocks:
            if recompute:
                arguments = block, x, rotary, attention, delta
                x = checkpoint(self._block, *arguments, use_reentrant=False)
            else:
                x = self._block(block, x, rotary, attention, delta)
        return self._normed(x, self.norm)

    def _block(
        self,
        block: Block,
        x: Tensor,
        rotary: tuple[Tensor, Tensor],
        attention: Attention,
        delta: Delta,
    ) -> Tensor:
        qkv = delta.linear(block.qkv, self._normed(x, block.attention_norm))
        shape = self.architecture
        heads = qkv.view(len(x), -1, shape.head_dim)
        qk, v = heads.split([shape.heads + shape.kv_heads, shape.kv_heads], dim=1)
        if block.q_norm is not None and block.k_norm is not None:
            q, k = qk.split([shape.heads, shape.kv_heads], dim=1)
            normed = self._normed(q, block.q_norm), self._normed(k, block.k_norm)
            qk = torch.cat(normed, dim=1)
        q, k = _rotate(qk, *rotary).split([shape.heads, shape.kv_heads], dim=1)
        mixed = attention(block.index, q, k, v)
        x = x + delta.linear(block.o, mixed)
        gate_up = delta.linear(block.gate_up, self._normed(x, block.mlp_norm))
        return x + delta.linear(block.down, _SwiGLU.apply(gate_up))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.architecture.norm_eps)


def _read_tensors(folder: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EngineError(f"{folder} has no .safetensors files: save the model in that format")
    tensors: dict[str, Tensor] = {}
    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - safe_open is not a mapping
                tensors[name] = opened.get_tensor(name).to(dtype)
    return tensors


def _linear(site: Site, tensors: dict[str, Tensor]) -> Linear:
    """Stack the site's projections, dropping them from `tensors` so that no copy stays alive."""
    weights = [tensors.pop(f"{module}.weight") for module in site.modules]
    weight = weights[0] if len(weights) == 1 else torch.cat(weights)
    if weight.shape != (sum(site.rows), site.inputs):
        raise EngineError(
            f"{site.modules[0]} is {list(weight.shape)} where config.json says "
            f"{[sum(site.rows), site.inputs]}: config and weights are not of one model"
        )
    biases = [tensors.pop(f"{module}.bias", None) for module in site.modules]
    present = [bias for bias in biases if bias is not None]
    return Linear(site, weight, torch.cat(present) if present else None)


def _block(index: int, sites: list[Site], tensors: dict[str, Tensor]) -> Block:
    prefix = f"model.layers.{index}."
    return Block(
        index,
        *(_linear(site, tensors) for site in sites),
        attention_norm=tensors[f"{prefix}input_layernorm.weight"],
        mlp_norm=tensors[f"{prefix}post_attention_layernorm.weight"],
        q_norm=tensors.get(f"{prefix}self_attn.q_norm.weight"),
        k_norm=tensors.get(f"{prefix}self_attn.k_norm.weight"),
    )


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding, halves paired as Hugging Face pairs them."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class _SwiGLU(torch.autograd.Function):
    """silu(gate) * up of a fused [tokens, 2 * inner]; the gradient fills one buffer."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,) = grads
        (gate_up,) = ctx.saved_tensors
        gate, up = gate_up.chunk(2, dim=-1)
        out = torch.empty_like(gate_up)
        gate_out, up_out = out.chunk(2, dim=-1)
        sigmoid = torch.sigmoid(gate)
        torch.mul(gate, sigmoid, out=up_out)
        # silu'(g) = sigmoid(g) + silu(g) (1 - sigmoid(g))
        torch.addcmul(sigmoid, up_out, 1 - sigmoid, out=gate_out)
        gate_out.mul_(up).mul_(grad)
        up_out.mul_(grad)
        return out
