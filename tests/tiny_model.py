"""A tiny causal language model with random weights and a working tokenizer, for tests.

`make_tiny_model` writes a Hugging Face folder (Llama family) in a fraction of a second: two
layers, byte-level BPE trained on a few sentences, SmolLM2's ChatML template. It needs neither
torch nor transformers. Its text is noise, but it is a real model: it can be trained and sampled.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

__all__ = ["CHAT_TEMPLATE", "make_tiny_model"]

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END_OF_TEXT, IM_START, IM_END = range(3)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_CORPUS = [
    "You are a helpful AI assistant. system user assistant",
    "What is seven plus five? The answer is 12.",
    "Tom has 3 boxes with 4 apples in each box. How many apples does Tom have? Tom has 12 apples.",
    "Write one line with the answer and nothing else. Answer: 42",
    "The capital of France is Paris, and the capital of Italy is Rome.",
    "Print the number of lines in the file. Use the calculator tool, then give the result.",
]

_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": IM_START,
    "eos_token_id": IM_END,
    "pad_token_id": IM_END,
    "torch_dtype": "float32",
}


def make_tiny_model(folder: Path, *, seed: int = 0, **config: Any) -> Path:
    """Write the model into `folder` (made if missing) and return it.

    `config` overrides fields of `config.json`, for instance `model_type="qwen3"`; the weights
    follow it (untied head, query/key/value biases, query/key norms).
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _train_tokenizer()
    settings = _CONFIG | {"vocab_size": tokenizer.get_vocab_size()} | config
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(_random_weights(settings, seed), folder / "model.safetensors", {"format": "pt"})
    _write_json(folder / "config.json", settings)
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|im_end|>",
            "unk_token": "<|endoftext|>",
            "model_max_length": settings["max_position_embeddings"],
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )
    _write_json(
        folder / "generation_config.json",
        {"bos_token_id": IM_START, "eos_token_id": IM_END, "pad_token_id": IM_END},
    )
    return folder


def _train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=[AddedToken(text, special=True) for text in SPECIAL_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def _random_weights(config: dict[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Weights scaled by fan-in, with a loud last norm, so that greedy choices are stable.

    Embeddings stay small beside what the layers add: a tied head would else repeat its input.
    """
    rng = np.random.default_rng(seed)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    query, key = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    biased = config["attention_bias"] or config["model_type"] == "qwen2"

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def vector(size: int, around: float) -> np.ndarray:
        return (around + 0.1 * rng.standard_normal(size)).astype(np.float32)

    weights = {
        "model.embed_tokens.weight": matrix(config["vocab_size"], hidden),
        "model.norm.weight": vector(hidden, 3),
    }
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, size in (("q", query), ("k", key), ("v", key)):
            weights[f"{prefix}self_attn.{name}_proj.weight"] = matrix(size, hidden)
            if biased:
                weights[f"{prefix}self_attn.{name}_proj.bias"] = vector(size, 0)
        if config["model_type"] == "qwen3":
            for name in ("q", "k"):
                weights[f"{prefix}self_attn.{name}_norm.weight"] = vector(head, 1)
        weights[f"{prefix}self_attn.o_proj.weight"] = matrix(hidden, query)
        weights[f"{prefix}mlp.gate_proj.weight"] = matrix(inner, hidden)
        weights[f"{prefix}mlp.up_proj.weight"] = matrix(inner, hidden)
        weights[f"{prefix}mlp.down_proj.weight"] = matrix(hidden, inner)
        weights[f"{prefix}input_layernorm.weight"] = vector(hidden, 1)
        weights[f"{prefix}post_attention_layernorm.weight"] = vector(hidden, 1)
    return weights


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
