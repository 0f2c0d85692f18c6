"""Gradients, losses and steps are what autograd and torch's AdamW say."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from rsigym.local.tinker import passes
from rsigym.local.tinker.engine import AdamSpec, Datum, Engine, EngineError, LoraSpec, PassResult
from rsigym.local.tinker.model import Decoder
from rsigym.local.tinker.optimizer import TrainingState
from rsigym.local.tinker.passes import micro_batches
from tests.local.tinker.engine_support import (
    VARIANTS,
    datum,
    hugging_face,
    merged_logprobs,
    random_state,
    run_whole,
)
from tests.tiny_model import make_tiny_model

MIXED = [datum(9, 1, np.linspace(-1, 1, 9)), datum(31, 2), datum(20, 3, np.eye(20)[4])]
"""Weights of both signs, none given, and one position alone."""


def run(decoder: Decoder, state: TrainingState, data: Sequence[Datum]) -> PassResult:
    return run_whole(decoder, state, data, "cross_entropy")


def merged_gradients(
    tiny_folder: Path, state: TrainingState, data: Sequence[Datum]
) -> tuple[dict[str, Tensor], float, list[np.ndarray]]:
    """Gradients, the loss and log-probabilities, by autograd through transformers' model."""
    leaves, logprobs = merged_logprobs(tiny_folder, state, data, torch.float32)
    total = torch.zeros(())
    for item, scores in zip(data, logprobs, strict=True):
        given = item.loss_inputs.get("weights", np.ones(len(scores)))
        total = total - (scores * torch.from_numpy(given).float()).sum()
    grads = torch.autograd.grad(total, list(leaves.values()))
    scored = [scores.detach().numpy() for scores in logprobs]
    return dict(zip(leaves, grads, strict=True)), total.item(), scored


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_equal_autograd_on_a_merged_model(variant: str, tmp_path: Path) -> None:
    make_tiny_model(tmp_path, **VARIANTS[variant])
    decoder = Decoder(tmp_path, torch.float32)
    state = random_state(decoder, LoraSpec(4, seed=0))
    result = run(decoder, state, MIXED)
    expected, loss, logprobs = merged_gradients(tmp_path, state, MIXED)
    assert state.gradient is not None
    found = state.adapter.named(state.gradient)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=2e-4, msg=name)
    assert result.metrics["loss:sum"] == pytest.approx(loss, rel=1e-4)
    for ours, theirs in zip(result.logprobs, logprobs, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("flag", ["train_attn", "train_mlp", "train_unembed"])
def test_layers_that_are_not_trained_have_no_parameters(flag: str, tiny_folder: Path) -> None:
    decoder = Decoder(tiny_folder, torch.float32)
    state = random_state(decoder, dataclasses.replace(LoraSpec(2, seed=0), **{flag: False}))
    run(decoder, state, MIXED)
    expected, _, _ = merged_gradients(tiny_folder, state, MIXED)
    assert state.gradient is not None
    part = {"train_attn": "self_attn", "train_mlp": "mlp", "train_unembed": "lm_head"}[flag]
    found = state.adapter.named(state.gradient)
    assert not any(part in name for name in found)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=2e-4, msg=name)


@pytest.mark.parametrize("recompute_from", [0, 10_000])
def test_micro_batches_and_recomputation_change_no_gradient(
    recompute_from: int, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder(tiny_folder, torch.float32)
    spec = LoraSpec(4, seed=0)
    whole, split = random_state(decoder, spec), random_state(decoder, spec)
    run(decoder, whole, MIXED)
    monkeypatch.setattr(passes, "RECOMPUTE_TOKENS", recompute_from)
    for item in MIXED:
        run(decoder, split, [item])
    assert whole.gradient is not None
    assert split.gradient is not None
    torch.testing.assert_close(split.gradient, whole.gradient, rtol=1e-4, atol=1e-4)


def test_micro_batches_hold_each_datum_once_and_keep_to_the_budget() -> None:
    lengths = [5, 300, 7, 260, 90, 600, 1]
    batches = micro_batches(lengths, budget=512)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or sum(lengths[i] for i in batch) <= 512 for batch in batches)
    assert batches[0] == [5]


def test_steps_equal_those_of_torch_adamw(tiny_folder: Path) -> None:
    decoder = Decoder(tiny_folder, torch.float32)
    state = random_state(decoder, LoraSpec(4, seed=0))
    theirs = state.adapter.vector.clone().requires_grad_()
    optimizer = torch.optim.AdamW([theirs], lr=1e-2, betas=(0.8, 0.9), eps=1e-8, weight_decay=0.1)
    adam = AdamSpec(1e-2, 0.8, 0.9, 1e-8, weight_decay=0.1, grad_clip_norm=1.0)
    for _ in range(3):
        run(decoder, state, MIXED)
        assert state.gradient is not None
        theirs.grad = state.gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_([theirs], 1.0).item()
        optimizer.step()
        assert state.optim_step(adam)["unclipped_grad_l2:mean"] == pytest.approx(norm)
        assert state.gradient is None
        torch.testing.assert_close(state.adapter.vector, theirs.detach(), rtol=1e-4, atol=1e-5)


def test_the_loss_falls_over_twenty_steps(engine: Engine) -> None:
    engine.create("falls", LoraSpec(8, seed=0)).result()
    losses: list[float] = []
    for _ in range(20):
        future = engine.forward_backward("falls", MIXED[1:2], "cross_entropy", {})
        engine.optim_step("falls", AdamSpec(5e-3))
        losses.append(future.result().metrics["loss:sum"])
    assert losses[-1] < 0.5 * losses[0]


def test_a_new_adapter_changes_nothing_and_its_seed_fixes_it(
    engine: Engine, tiny_folder: Path
) -> None:
    results: list[list[float]] = []
    for name, seed in (("seed-a", 1), ("seed-b", 1), ("seed-c", 2)):
        engine.create(name, LoraSpec(4, seed=seed)).result()
        first = engine.forward_backward(name, MIXED, "cross_entropy", {})
        norm = engine.optim_step(name, AdamSpec(1e-2)).result()["unclipped_grad_l2:mean"]
        after = engine.forward(name, MIXED, "cross_entropy", {}).result().metrics["loss:sum"]
        results.append([first.result().metrics["loss:sum"], norm, after])
    assert results[0] == results[1]
    assert results[0][0] == results[2][0]
    assert results[0][2] != results[2][2]
    tokens = torch.from_numpy(MIXED[1].tokens).long()
    targets = torch.from_numpy(MIXED[1].loss_inputs["target_tokens"])
    with torch.no_grad():
        plain = hugging_face(tiny_folder)(tokens[None]).logits[0].log_softmax(-1)
    engine.create("seed-d", LoraSpec(4, seed=1)).result()
    scored = engine.forward("seed-d", MIXED[1:2], "cross_entropy", {}).result().logprobs[0]
    np.testing.assert_allclose(scored, plain.gather(1, targets[:, None])[:, 0], atol=1e-4)


def test_passes_accumulate_until_a_step_and_forward_does_not_count(engine: Engine) -> None:
    norms: list[float] = []
    for name, calls in (("once", [MIXED]), ("thrice", [[item] for item in MIXED])):
        engine.create(name, LoraSpec(4, seed=3)).result()
        for data in calls:
            engine.forward_backward(name, data, "cross_entropy", {})
            engine.forward(name, data, "cross_entropy", {})
        metrics = engine.optim_step(name, AdamSpec(1e-3)).result()
        norms.append(metrics["unclipped_grad_l2:mean"])
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    with pytest.raises(EngineError, match="call forward_backward before optim_step"):
        engine.optim_step("once", AdamSpec(1e-3)).result()


def test_all_zero_weights_score_everything_and_learn_nothing(engine: Engine) -> None:
    engine.create("zero", LoraSpec(4, seed=0)).result()
    zero = datum(12, weights=np.zeros(12))
    result = engine.forward_backward("zero", [zero], "cross_entropy", {}).result()
    assert result.metrics["loss:sum"] == 0
    assert (result.logprobs[0] < 0).all()
    assert engine.optim_step("zero", AdamSpec(1e-3)).result()["unclipped_grad_l2:mean"] == 0


BAD = datum(4)


@pytest.mark.parametrize(
    ("data", "loss", "message"),
    [
        ([BAD], "no_such_loss", r"no loss 'no_such_loss'.*cross_entropy"),
        ([], "cross_entropy", "no data"),
        ([datum(1500)], "cross_entropy", "1500 tokens; this model takes 1 to 1024"),
        ([Datum(BAD.tokens, {})], "cross_entropy", "needs 'target_tokens'"),
        ([datum(4, weights=np.ones(5))], "cross_entropy", r"'weights' has shape \[5\]"),
        ([datum(4, weights=np.full(4, np.nan))], "cross_entropy", "not finite"),
        ([Datum(BAD.tokens + 100_000, BAD.loss_inputs)], "cross_entropy", "outside 0.."),
        (
            [Datum(BAD.tokens, {**BAD.loss_inputs, "advantages": np.ones(4)})],
            "cross_entropy",
            "no input 'advantages'",
        ),
    ],
)
def test_a_pass_that_cannot_be_made_fails_alone_and_leaves_no_gradient(
    engine: Engine, data: list[Datum], loss: str, message: str
) -> None:
    engine.drop("bad").result()
    engine.create("bad", LoraSpec(2, seed=0)).result()
    with pytest.raises(EngineError, match=message):
        engine.forward_backward("bad", data, loss, {}).result()
    with pytest.raises(EngineError, match="no gradient"):
        engine.optim_step("bad", AdamSpec(1e-3)).result()


def test_a_cancelled_pass_leaves_no_gradient(engine: Engine) -> None:
    engine.create("cancelled", LoraSpec(4, seed=0)).result()
    data = [datum(400, seed) for seed in range(40)]
    future = engine.forward_backward("cancelled", data, "cross_entropy", {})
    assert future.cancel()
    with pytest.raises(EngineError, match="no gradient"):
        engine.optim_step("cancelled", AdamSpec(1e-3)).result()


def test_adapters_are_created_once_and_with_something_to_train(engine: Engine) -> None:
    engine.create("made", LoraSpec(2, seed=0)).result()
    with pytest.raises(EngineError, match="exists already"):
        engine.create("made", LoraSpec(2, seed=0)).result()
    with pytest.raises(EngineError, match="rank is 0"):
        engine.create("rankless", LoraSpec(0, seed=0)).result()
    nothing = LoraSpec(2, 0, train_mlp=False, train_attn=False, train_unembed=False)
    with pytest.raises(EngineError, match="nothing to train"):
        engine.create("idle", nothing).result()
    with pytest.raises(EngineError, match="create or load it first"):
        engine.forward("never", MIXED, "cross_entropy", {}).result()
