"""Adapters go to disk in PEFT's format and come back as they were."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from rsigym.local.tinker.engine import AdamSpec, Engine, EngineError, LoraSpec, SampleSpec
from tests.local.tinker.engine_support import datum, hugging_face, prompt, running_engine
from tests.tiny_model import make_tiny_model

DATA = [datum(24, 1)]


def train(engine: Engine, adapter: str, steps: int) -> list[float]:
    losses: list[float] = []
    for _ in range(steps):
        future = engine.forward_backward(adapter, DATA, "cross_entropy", {})
        engine.optim_step(adapter, AdamSpec(1e-2))
        losses.append(future.result().metrics["loss:sum"])
    return losses


def test_training_goes_on_from_a_saved_state_as_if_never_stopped(
    engine: Engine, tmp_path: Path
) -> None:
    engine.create("whole", LoraSpec(4, seed=0)).result()
    train(engine, "whole", 3)
    engine.save("whole", tmp_path / "state", optimizer=True).result()
    expected = train(engine, "whole", 3)
    engine.load("resumed", tmp_path / "state", optimizer=True).result()
    assert train(engine, "resumed", 3) == expected
    engine.load("fresh optimizer", tmp_path / "state", optimizer=False).result()
    losses = train(engine, "fresh optimizer", 3)
    assert losses[0] == expected[0]
    assert losses[2] != expected[2]


def bits(file: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """Metadata and tensors of a file, whose header has them in no fixed order."""
    with safe_open(file, "numpy") as opened:
        tensors = {name: opened.get_tensor(name).tobytes() for name in opened.keys()}  # noqa: SIM118
        return opened.metadata(), tensors


def test_weights_and_moments_of_resumed_training_are_those_of_uninterrupted_training(
    engine: Engine, tmp_path: Path
) -> None:
    adam = AdamSpec(1e-2, weight_decay=0.1, grad_clip_norm=1.0)

    def go_on(adapter: str, folder: Path) -> list[tuple[dict[str, str], dict[str, bytes]]]:
        for _ in range(4):
            engine.forward_backward(adapter, DATA, "cross_entropy", {})
            engine.optim_step(adapter, adam)
        engine.save(adapter, folder, optimizer=True).result()
        return [bits(file) for file in sorted(folder.glob("*.safetensors"))]

    engine.create("exact", LoraSpec(4, seed=0)).result()
    go_on("exact", tmp_path / "state")
    expected = go_on("exact", tmp_path / "uninterrupted")
    engine.load("exact again", tmp_path / "state", optimizer=True).result()
    assert go_on("exact again", tmp_path / "resumed") == expected
    assert len(expected) == 2


def test_a_state_holds_no_gradient_that_was_not_applied(engine: Engine, tmp_path: Path) -> None:
    engine.create("pending", LoraSpec(4, seed=0)).result()
    engine.forward_backward("pending", DATA, "cross_entropy", {}).result()
    engine.save("pending", tmp_path / "state", optimizer=True).result()
    engine.load("pending", tmp_path / "state", optimizer=True).result()
    with pytest.raises(EngineError, match="no gradient"):
        engine.optim_step("pending", AdamSpec(1e-3)).result()


def test_a_saved_adapter_has_pefts_files_names_and_mathematics(
    engine: Engine, tiny_folder: Path, tmp_path: Path
) -> None:
    engine.create("peft", LoraSpec(4, seed=0)).result()
    train(engine, "peft", 3)
    engine.save("peft", tmp_path / "adapter", optimizer=False).result()
    assert {file.name for file in (tmp_path / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 4, 32)
    assert config["base_model_name_or_path"] == "tiny"
    assert set(config["target_modules"]) == {
        *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        "lm_head",
    }
    tensors = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    model = hugging_face(tiny_folder)
    weights = dict(model.state_dict())
    for name, module in model.named_modules():
        if (a := tensors.pop(f"base_model.model.{name}.lora_A.weight", None)) is not None:
            b = tensors.pop(f"base_model.model.{name}.lora_B.weight")
            weights[f"{name}.weight"] = module.weight + config["lora_alpha"] / config["r"] * b @ a
    assert not tensors
    ids = torch.from_numpy(prompt(40)).long()
    with torch.no_grad():
        logits = torch.func.functional_call(model, weights, (ids[None],), tie_weights=False).logits
    expected = logits[0].log_softmax(-1)[:-1].gather(1, ids[1:, None])[:, 0]
    spec = SampleSpec(prompt(40), 1, 1, prompt_logprobs=True)
    found = engine.sample(spec, tmp_path / "adapter").result().prompt_logprobs
    assert found is not None
    np.testing.assert_allclose(found[1:], expected, atol=1e-3)


def test_saving_over_a_folder_replaces_it_whole(engine: Engine, tmp_path: Path) -> None:
    engine.create("over", LoraSpec(2, seed=0)).result()
    engine.save("over", tmp_path / "adapter", optimizer=True).result()
    engine.save("over", tmp_path / "adapter", optimizer=False).result()
    assert [file.name for file in tmp_path.iterdir()] == ["adapter"]
    assert not (tmp_path / "adapter" / "optimizer.safetensors").exists()


def test_loading_what_does_not_fit_says_why_and_changes_nothing(
    engine: Engine, tmp_path: Path
) -> None:
    engine.create("kept", LoraSpec(2, seed=0)).result()
    before = engine.forward("kept", DATA, "cross_entropy", {}).result().metrics
    engine.create("other", LoraSpec(4, seed=0)).result()
    engine.save("other", tmp_path / "other", optimizer=False).result()
    with pytest.raises(EngineError, match="another rank or other layers"):
        engine.load("kept", tmp_path / "other", optimizer=False).result()
    with pytest.raises(EngineError, match="saved without its optimizer"):
        engine.load("new", tmp_path / "other", optimizer=True).result()
    with pytest.raises(EngineError, match="no adapter in"):
        engine.load("new", tmp_path / "nothing", optimizer=False).result()
    wide = make_tiny_model(tmp_path / "wide", intermediate_size=96)
    with (
        running_engine(wide) as wider,
        pytest.raises(EngineError, match="was not made for this model"),
    ):
        wider.load("new", tmp_path / "other", optimizer=False).result()
    assert engine.forward("kept", DATA, "cross_entropy", {}).result().metrics == before


def test_a_failed_save_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="create or load it first"):
        engine.save("never made", tmp_path / "adapter", optimizer=True).result()
    assert list(tmp_path.iterdir()) == []


def test_a_flag_decides_which_modules_are_saved(engine: Engine, tmp_path: Path) -> None:
    engine.create("mlp", LoraSpec(2, 0, train_attn=False, train_unembed=False)).result()
    engine.save("mlp", tmp_path / "mlp", optimizer=False).result()
    config = json.loads((tmp_path / "mlp" / "adapter_config.json").read_text())
    assert config["target_modules"] == ["down_proj", "gate_proj", "up_proj"]
    engine.load("mlp again", tmp_path / "mlp", optimizer=False).result()
    assert train(engine, "mlp again", 1)
