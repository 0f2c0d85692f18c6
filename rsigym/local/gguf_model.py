"""A Llama-family GGUF file as a Hugging Face folder: weights, tokenizer and chat template."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, ReaderTensor, dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

__all__ = ["write_hugging_face_folder"]

MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
CONTROL_TOKEN = 3
"""GGUF's token type of `<|im_start|>` and the like."""


def write_hugging_face_folder(gguf: Path, folder: Path) -> None:
    """Dequantise `gguf` to float32 and write what `transformers` needs into `folder`.

    The tokenizer is SmolLM2's: byte-level BPE in which every digit stands alone.
    """
    reader = GGUFReader(gguf)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    config = _config(facts, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = dict(_weight(tensor, heads) for tensor in reader.tensors)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    tokenizer = _tokenizer(facts)
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", ids)
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(facts))


def _config(facts: Mapping[str, Any], *, tied: bool) -> dict[str, Any]:
    heads = facts["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "hidden_size": facts["llama.embedding_length"],
        "intermediate_size": facts["llama.feed_forward_length"],
        "num_hidden_layers": facts["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": facts["llama.attention.head_count_kv"],
        "head_dim": facts["llama.embedding_length"] // heads,
        "max_position_embeddings": facts["llama.context_length"],
        # The file holds it in single precision: 9.999999747378752e-06.
        "rms_norm_eps": float(f"{facts['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": facts["llama.rope.freq_base"],
        "tie_word_embeddings": tied,
        "vocab_size": len(facts["tokenizer.ggml.tokens"]),
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
        "torch_dtype": "float32",
    }


def _weight(tensor: ReaderTensor, heads: Mapping[str, int]) -> tuple[str, np.ndarray]:
    weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    if tensor.name in TOP:
        return TOP[tensor.name], weight
    _, layer, part, _ = tensor.name.split(".")
    if part in heads:
        weight = _unpermute(weight, heads[part])
    return f"model.layers.{layer}.{MODULES[part]}.weight", np.ascontiguousarray(weight)


def _unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """GGUF pairs a head's rows as llama.cpp rotates them (2i, 2i + 1); HF rotates its halves."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def _tokenizer(facts: Mapping[str, Any]) -> Tokenizer:
    tokens: list[str] = facts["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    vocab = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, facts["tokenizer.ggml.token_type"], strict=True)
    special = [AddedToken(token, special=True) for token, kind in kinds if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens(special)
    return tokenizer


def _tokenizer_config(facts: Mapping[str, Any]) -> dict[str, Any]:
    tokens: list[str] = facts["tokenizer.ggml.tokens"]
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    named = {
        f"{ours}_token": tokens[facts[f"tokenizer.ggml.{theirs}_token_id"]]
        for ours, theirs in names.items()
    }
    return named | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": facts["llama.context_length"],
        "chat_template": facts["tokenizer.chat_template"],
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")
