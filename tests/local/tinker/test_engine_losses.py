"""Every loss is its published formula: checked against it, token by token, in float64."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rsigym.local.tinker.engine import AdamSpec, Datum, Engine, EngineError, LoraSpec
from rsigym.local.tinker.losses import LOSSES
from rsigym.local.tinker.model import Decoder
from rsigym.local.tinker.optimizer import TrainingState
from tests.local.tinker.engine_support import merged_logprobs, prompt, random_state, run_whole

THRESHOLDS = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
CONFIGS = {
    "cross_entropy": {},
    "importance_sampling": {},
    "ppo": THRESHOLDS,
    "cispo": {"clip_low_threshold": 0.0, "clip_high_threshold": 4.0},
    "dro": {"beta": 0.3},
    "gspo": THRESHOLDS,
}
"""The documented defaults, and values where there are none."""

POLICY_LOSSES = [name for name in LOSSES if name != "cross_entropy"]
SPEC = LoraSpec(4, seed=0)


@pytest.fixture(scope="module")
def decoder(tiny_folder: Path) -> Decoder:
    return Decoder(tiny_folder, torch.float32)


@pytest.fixture(scope="module")
def state(decoder: Decoder) -> TrainingState:
    return random_state(decoder, SPEC)


def reference(
    loss: str, logprobs: Tensor, inputs: Mapping[str, np.ndarray], config: Mapping[str, float]
) -> Tensor:
    """The loss of one sequence; log-probabilities and inputs [T]."""
    fixed = logprobs.detach()
    total = torch.zeros((), dtype=logprobs.dtype)
    for t, logprob in enumerate(logprobs):
        if loss == "cross_entropy":
            total = total - inputs["weights"][t] * logprob
            continue
        advantage, sampled = inputs["advantages"][t], inputs["logprobs"][t]
        low, high = (config.get(key, 0.0) for key in THRESHOLDS)
        ratio = torch.exp(logprob - sampled)
        if loss == "gspo":
            marked = inputs["sequence_ratio_mask"] == 1
            mean = np.mean(fixed.numpy()[marked] - inputs["logprobs"][marked])
            ratio = float(np.exp(mean)) * torch.exp(logprob - fixed[t])
        match loss:
            case "importance_sampling":
                total = total - ratio * advantage
            case "ppo" | "gspo":
                total = total - min(ratio * advantage, min(max(ratio, low), high) * advantage)
            case "cispo":
                total = total - min(max(ratio.item(), low), high) * advantage * logprob
            case "dro":
                total = total - advantage * logprob + config["beta"] / 2 * (logprob - sampled) ** 2
    return total


def targets_only(length: int, seed: int) -> Datum:
    tokens = prompt(length + 1, seed)
    return Datum(tokens[:-1], {"target_tokens": tokens[1:].astype(np.int64)})


def with_inputs(item: Datum, loss: str, logprobs: np.ndarray, seed: int) -> Datum:
    """What the loss takes: sampled somewhat off the policy, and a prompt without advantage."""
    rng, length = np.random.default_rng(seed), len(item.tokens)
    answer = (np.arange(length) >= length // 3).astype(np.float32)
    inputs: dict[str, np.ndarray] = {
        "weights": rng.normal(size=length).astype(np.float32) * answer,
        "logprobs": np.minimum(logprobs + rng.normal(0, 0.4, length), 0).astype(np.float32),
        "advantages": rng.normal(size=length).astype(np.float32) * answer,
        "sequence_ratio_mask": answer,
    }
    taken = {name: inputs[name] for name in LOSSES[loss].inputs}
    return Datum(item.tokens, {**item.loss_inputs, **taken})


def policy_data(
    decoder: Decoder, state: TrainingState, loss: str, lengths: tuple[int, ...] = (9, 31, 20)
) -> list[Datum]:
    bare = [targets_only(length, seed) for seed, length in enumerate(lengths)]
    scored = run_whole(decoder, TrainingState(state.adapter), bare, "cross_entropy").logprobs
    return [
        with_inputs(item, loss, logprobs, seed)
        for seed, (item, logprobs) in enumerate(zip(bare, scored, strict=True))
    ]


def gradient(
    decoder: Decoder, state: TrainingState, data: list[Datum], loss: str, config: Any = None
) -> Tensor:
    """The gradient that one pass over the data adds."""
    fresh = TrainingState(state.adapter)
    run_whole(decoder, fresh, data, loss, CONFIGS[loss] if config is None else config)
    assert fresh.gradient is not None
    return fresh.gradient


def assert_same(found: Tensor, expected: Tensor, tolerance: float = 1e-4) -> None:
    assert (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_and_gradients_equal_the_formula_in_float64(
    loss: str, tiny_folder: Path, decoder: Decoder, state: TrainingState
) -> None:
    data = policy_data(decoder, state, loss)
    leaves, logprobs = merged_logprobs(tiny_folder, state, data, torch.float64)
    losses = [
        reference(loss, scores, item.loss_inputs, CONFIGS[loss])
        for item, scores in zip(data, logprobs, strict=True)
    ]
    total = torch.stack(losses).sum()
    grads = torch.autograd.grad(total, list(leaves.values()))
    fresh = TrainingState(state.adapter)
    result = run_whole(decoder, fresh, data, loss, CONFIGS[loss])
    assert result.metrics == {"loss:sum": pytest.approx(total.item(), rel=1e-4)}
    for found, scores in zip(result.logprobs, logprobs, strict=True):
        np.testing.assert_allclose(found, scores.detach(), atol=1e-4)
    assert fresh.gradient is not None
    expected = dict(zip(leaves, grads, strict=True))
    for name, found in state.adapter.named(fresh.gradient).items():
        assert_same(found.double(), expected[name])


@pytest.mark.parametrize("loss", LOSSES)
def test_defaults_are_the_documented_ones(
    loss: str, decoder: Decoder, state: TrainingState
) -> None:
    data = policy_data(decoder, state, loss)
    if loss in ("dro", "gspo"):  # Tinker documents none.
        with pytest.raises(EngineError, match=f"loss '{loss}' needs '.*' in loss_fn_config"):
            gradient(decoder, state, data, loss, {})
    else:
        expected = gradient(decoder, state, data, loss)
        torch.testing.assert_close(gradient(decoder, state, data, loss, {}), expected)


@pytest.mark.parametrize("loss", POLICY_LOSSES)
def test_on_policy_every_policy_loss_has_the_gradient_of_reinforce(
    loss: str, decoder: Decoder, state: TrainingState
) -> None:
    data = policy_data(decoder, state, loss)
    scored = run_whole(decoder, TrainingState(state.adapter), data, loss, CONFIGS[loss]).logprobs
    on_policy = [
        Datum(item.tokens, {**item.loss_inputs, "logprobs": logprobs})
        for item, logprobs in zip(data, scored, strict=True)
    ]
    reinforce = [
        Datum(
            item.tokens,
            {
                "target_tokens": item.loss_inputs["target_tokens"],
                "weights": item.loss_inputs["advantages"],
            },
        )
        for item in data
    ]
    expected = gradient(decoder, state, reinforce, "cross_entropy")
    assert_same(gradient(decoder, state, on_policy, loss), expected)


def on_logprobs(loss: str, logprobs: Tensor, inputs: dict[str, Tensor]) -> tuple[float, Tensor]:
    """A loss and its gradient as a function of log-probabilities [T, 1] alone."""
    leaf = logprobs.clone().requires_grad_()
    value = LOSSES[loss].function(leaf, inputs, CONFIGS[loss])
    (grad,) = torch.autograd.grad(value, [leaf])
    return value.item(), grad


def column(low: float, high: float) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(low, high), min_size=6, max_size=6)


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


@given(
    st.sampled_from(["importance_sampling", "cispo"]),
    column(-9, 0),
    column(-9, 0),
    column(-3, 3),
    column(-3, 3),
    st.floats(-2, 2),
)
def test_losses_are_linear_in_the_advantages(
    loss: str,
    logprobs: list[float],
    sampled: list[float],
    first: list[float],
    second: list[float],
    factor: float,
) -> None:
    def at(advantages: Tensor) -> tuple[float, Tensor]:
        inputs = {"logprobs": tensor(sampled), "advantages": advantages}
        return on_logprobs(loss, tensor(logprobs), inputs)

    both = at(tensor(first) + factor * tensor(second))
    one, other = at(tensor(first)), at(tensor(second))
    assert both[0] == pytest.approx(one[0] + factor * other[0], rel=1e-6, abs=1e-6)
    torch.testing.assert_close(both[1], one[1] + factor * other[1], rtol=1e-6, atol=1e-6)


@given(column(-9, 0), column(-9, 0), column(-3, 3))
def test_ppo_is_importance_sampling_or_nothing(
    logprobs: list[float], sampled: list[float], advantages: list[float]
) -> None:
    inputs = {"logprobs": tensor(sampled), "advantages": tensor(advantages)}
    clipped, free = (
        on_logprobs(loss, tensor(logprobs), inputs) for loss in ("ppo", "importance_sampling")
    )
    assert clipped[0] >= free[0] - 1e-9
    gone = clipped[1] == 0
    torch.testing.assert_close(clipped[1][~gone], free[1][~gone])
    ratio = torch.exp(tensor(logprobs) - tensor(sampled))
    raised, lowered = tensor(advantages) > 0, tensor(advantages) < 0
    assert gone[(raised & (ratio > 1.2)) | (lowered & (ratio < 0.8))].all()


@given(column(-9, 0), column(-9, 0), column(-3, 3))
def test_dro_without_a_penalty_is_weighted_cross_entropy(
    logprobs: list[float], sampled: list[float], advantages: list[float]
) -> None:
    inputs = {"logprobs": tensor(sampled), "advantages": tensor(advantages)}
    free = LOSSES["dro"].function(tensor(logprobs), inputs, {"beta": 0.0})
    weighted = {"weights": tensor(advantages)}
    assert free.item() == LOSSES["cross_entropy"].function(tensor(logprobs), weighted, {}).item()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ends", [(1, 2, 3), (2,), (3, 4)])
def test_passes_over_parts_add_up_to_one_over_all(
    loss: str, ends: tuple[int, ...], decoder: Decoder, state: TrainingState
) -> None:
    data = policy_data(decoder, state, loss, (9, 31, 20, 5, 300))
    parts = TrainingState(state.adapter)
    total = 0.0
    for start, end in zip((0, *ends), (*ends, len(data)), strict=True):
        part = run_whole(decoder, parts, data[start:end], loss, CONFIGS[loss])
        total += part.metrics["loss:sum"]
    whole = TrainingState(state.adapter)
    result = run_whole(decoder, whole, data, loss, CONFIGS[loss])
    assert total == pytest.approx(result.metrics["loss:sum"], rel=1e-4, abs=1e-4)
    assert parts.gradient is not None
    assert whole.gradient is not None
    assert_same(parts.gradient, whole.gradient, 1e-5)


def test_many_targets_at_a_position_are_as_many_sequences(
    tiny_folder: Path, decoder: Decoder, state: TrainingState
) -> None:
    rng = np.random.default_rng(0)
    tokens = prompt(8)
    many = Datum(
        tokens,
        {"target_tokens": rng.integers(3, 380, (8, 3)), "weights": rng.normal(size=(8, 3))},
    )
    single = targets_only(11, 5)
    result = run_whole(decoder, TrainingState(state.adapter), [single, many], "cross_entropy")
    assert [row.shape for row in result.logprobs] == [(11,), (8, 3)]
    _, logprobs = merged_logprobs(tiny_folder, state, [single, many], torch.float64)
    for found, expected in zip(result.logprobs, logprobs, strict=True):
        np.testing.assert_allclose(found, expected.detach(), atol=1e-4)
    apart = [Datum(tokens, {k: v[:, i] for k, v in many.loss_inputs.items()}) for i in range(3)]
    assert_same(
        gradient(decoder, state, [single, many], "cross_entropy"),
        gradient(decoder, state, [*apart, single], "cross_entropy"),
    )


GOOD = Datum(
    prompt(4),
    {
        "target_tokens": prompt(4, 1).astype(np.int64),
        "logprobs": np.full(4, -1.0),
        "advantages": np.ones(4),
        "sequence_ratio_mask": np.ones(4),
    },
)
PPO = Datum(GOOD.tokens, {k: v for k, v in GOOD.loss_inputs.items() if "mask" not in k})


def changed(item: Datum, **inputs: np.ndarray | None) -> Datum:
    together = {**item.loss_inputs, **inputs}
    return dataclasses.replace(
        item, loss_inputs={k: v for k, v in together.items() if v is not None}
    )


@pytest.mark.parametrize(
    ("loss", "bad", "message"),
    [
        ("ppo", changed(PPO, advantages=None), "loss 'ppo' needs 'advantages'"),
        ("ppo", changed(PPO, logprobs=None), "loss 'ppo' needs 'logprobs'"),
        ("ppo", changed(PPO, target_tokens=None), "needs 'target_tokens'"),
        ("ppo", changed(PPO, weights=np.ones(4)), "'ppo' has no input 'weights'; it takes"),
        ("ppo", changed(PPO, mask=np.ones(4)), "no input 'mask'"),
        ("ppo", changed(PPO, clip_low_threshold=np.ones(4)), "goes into loss_fn_config"),
        (
            "ppo",
            changed(PPO, advantages=np.ones(5)),
            r"'advantages' has shape \[5\] where .* \[4\]",
        ),
        ("ppo", changed(PPO, logprobs=np.ones((4, 1))), r"'logprobs' has shape \[4, 1\]"),
        ("ppo", changed(PPO, logprobs=np.array([0, 0, 0, -np.inf])), "'logprobs' .* not finite"),
        ("ppo", changed(PPO, target_tokens=np.ones(4)), "must be integers, not float64"),
        (
            "ppo",
            changed(PPO, target_tokens=np.ones((4, 2), np.int64)),
            r"'target_tokens' has shape \[4, 2\]: it must be \[4\], as",
        ),
        ("gspo", changed(GOOD, sequence_ratio_mask=np.zeros(4)), "marks no token"),
        ("gspo", changed(GOOD, sequence_ratio_mask=None), "needs 'sequence_ratio_mask'"),
        (
            "cross_entropy",
            Datum(GOOD.tokens, {"target_tokens": np.ones((5, 2), np.int64)}),
            r"it must be \[4\] or \[4, K\], as model_input has 4 tokens",
        ),
    ],
)
def test_an_input_that_does_not_fit_is_refused_by_datum_and_name(
    engine: Engine, loss: str, bad: Datum, message: str
) -> None:
    engine.drop("inputs").result()
    engine.create("inputs", LoraSpec(2, seed=0)).result()
    good = {"ppo": PPO, "gspo": GOOD, "cross_entropy": targets_only(4, 1)}[loss]
    with pytest.raises(EngineError, match=rf"data\[1\]: .*{message}"):
        engine.forward_backward("inputs", [good, bad], loss, CONFIGS[loss]).result()
    with pytest.raises(EngineError, match="no gradient"):
        engine.optim_step("inputs", AdamSpec(1e-3)).result()


@pytest.mark.parametrize(
    ("loss", "config", "message"),
    [
        ("ppo", {"clip_low": 0.8}, "'ppo' has no setting 'clip_low'; it has: clip_low_threshold"),
        ("cross_entropy", {"beta": 1.0}, "has no setting 'beta'; it has: none"),
        ("dro", {"beta": "big"}, r"loss_fn_config\['beta'\] must be a number, not 'big'"),
        ("dro", {"beta": float("nan")}, "must be a number, not nan"),
        ("ppo", {"clip_low_threshold": 1.5}, "1.5 is above clip_high_threshold 1.2"),
        ("gspo", {"clip_low_threshold": 0.9}, "needs 'clip_high_threshold' in loss_fn_config"),
        ("custom", {"loss_id": "x"}, "no loss 'custom' .*call forward_backward_custom"),
        ("stable_reinforce", {}, "no loss 'stable_reinforce' .*only hosted Tinker records"),
    ],
)
def test_settings_that_a_loss_does_not_have_are_refused_by_name(
    engine: Engine, loss: str, config: dict[str, float | str], message: str
) -> None:
    engine.drop("settings").result()
    engine.create("settings", LoraSpec(2, seed=0)).result()
    with pytest.raises(EngineError, match=message):
        engine.forward_backward("settings", [PPO], loss, config).result()
