"""Losses through the unmodified SDK, over HTTP: built in, and the user's own."""

import asyncio
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

if TYPE_CHECKING:
    import tinker
    import torch

CONFIGS: dict[str, dict[str, float]] = {
    "dro": {"beta": 0.1},
    "gspo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
}
SMOOTH = 1e-2
"""An eps of Adam with which rounding of a tiny gradient does not decide a step's direction."""

ANSWER = slice(3, None)
"""Of the sampled sequences, what follows the prompt."""


@pytest.fixture(scope="module")
def sampled(base: "tinker.SamplingClient") -> "list[dict[str, Any]]":
    """Loss inputs of three answers that the untrained model gave."""
    import tinker

    prompt = [5, 17, 42, 99]
    response = base.sample(
        tinker.ModelInput.from_ints(prompt), 3, tinker.SamplingParams(max_tokens=9, seed=4)
    ).result(60)
    rows: list[dict[str, Any]] = []
    for number, sequence in enumerate(response.sequences):
        assert sequence.logprobs is not None
        tokens, blank = prompt + sequence.tokens, [0.0] * (len(prompt) - 1)
        advantages = np.linspace(-1, 1, len(sequence.tokens)) + number / 2
        rows.append(
            {
                "tokens": tokens[:-1],
                "target_tokens": tokens[1:],
                "logprobs": blank + sequence.logprobs,
                "advantages": blank + advantages.tolist(),
                "sequence_ratio_mask": blank + [1.0] * len(sequence.tokens),
            }
        )
    return rows


def policy_data(sampled: list[dict[str, Any]], loss: str) -> "list[tinker.Datum]":
    import tinker

    names = ["target_tokens", "logprobs", "advantages"]
    if loss == "gspo":
        names.append("sequence_ratio_mask")
    return [
        tinker.Datum(
            model_input=tinker.ModelInput.from_ints(row["tokens"]),
            loss_fn_inputs={name: row[name] for name in names},
        )
        for row in sampled
    ]


def learn(trainer: "tinker.TrainingClient", **adam: float) -> float:
    """One step; the norm of the gradient it applied."""
    import tinker

    metrics = trainer.optim_step(tinker.AdamParams(**adam)).result(60).metrics
    assert metrics is not None
    return metrics["unclipped_grad_l2:mean"]


def scores(trainer: "tinker.TrainingClient", data: "list[tinker.Datum]") -> np.ndarray:
    outputs = trainer.forward(data, "cross_entropy").result(60).loss_fn_outputs
    return np.concatenate([output["logprobs"].to_numpy().ravel() for output in outputs])


@pytest.mark.parametrize("loss", ["importance_sampling", "ppo", "cispo", "dro", "gspo"])
def test_what_was_just_sampled_is_trained_on_policy(
    trainer: "tinker.TrainingClient", sampled: list[dict[str, Any]], loss: Any
) -> None:
    data = policy_data(sampled, loss)
    result = trainer.forward_backward(data, loss, CONFIGS.get(loss)).result(60)
    learned = np.concatenate(
        [output["logprobs"].to_numpy()[ANSWER] for output in result.loss_fn_outputs]
    )
    given = np.concatenate([row["logprobs"][ANSWER] for row in sampled])
    np.testing.assert_allclose(learned, given, atol=1e-4)
    advantages = np.concatenate([row["advantages"][ANSWER] for row in sampled])
    if loss in ("importance_sampling", "ppo", "gspo"):  # The ratio of an on-policy token is 1.
        assert result.metrics == {"loss:sum": pytest.approx(-advantages.sum(), abs=1e-3)}
    assert set(result.metrics) == {"loss:sum"}
    assert learn(trainer, learning_rate=1e-2) > 0
    after = trainer.forward(data, loss, CONFIGS.get(loss)).result(60)
    raised = np.concatenate(
        [output["logprobs"].to_numpy()[ANSWER] for output in after.loss_fn_outputs]
    )
    assert ((raised - learned) * advantages).sum() > 0


def test_every_loss_the_sdk_names_is_offered_or_refused_by_name(
    trainer: "tinker.TrainingClient", sampled: list[dict[str, Any]], data: "list[tinker.Datum]"
) -> None:
    import tinker

    def outcome(loss: Any) -> str:
        given = data if loss == "cross_entropy" else policy_data(sampled, loss)
        try:
            trainer.forward(given, loss, CONFIGS.get(loss)).result(60)
        except tinker.RequestFailedError as refused:
            return f"{refused.category}: {refused}"
        return "offered"

    outcomes = {loss: outcome(loss) for loss in get_args(tinker.types.LossFnType)}
    refused = {loss: said for loss, said in outcomes.items() if said != "offered"}
    assert refused.keys() == {"stable_reinforce", "custom"}
    for loss, said in refused.items():
        assert said.startswith(f"user: Request failed: no loss '{loss}' on the local Tinker server")


def test_an_input_that_does_not_fit_is_refused_by_datum_and_name(
    trainer: "tinker.TrainingClient", sampled: list[dict[str, Any]]
) -> None:
    import tinker

    row = {**sampled[1], "advantages": [1.0, 2.0]}
    data = [*policy_data(sampled, "ppo"), *policy_data([row], "ppo")]
    with pytest.raises(tinker.RequestFailedError, match=r"data\[3\]: 'advantages' has shape \[2\]"):
        trainer.forward_backward(data, "ppo").result(60)
    with pytest.raises(tinker.RequestFailedError, match="'ppo' has no setting 'epsilon'"):
        trainer.forward_backward(data[:3], "ppo", {"epsilon": 0.2}).result(60)


def many_targets(rows: list[list[int]], **others: Any) -> "tinker.Datum":
    import tinker

    inputs: Any = {"target_tokens": np.array(rows), **others}
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints([5, 17, 42][: len(rows)]), loss_fn_inputs=inputs
    )


def test_many_targets_at_a_position_come_back_in_their_shape(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]"
) -> None:
    weights = np.array([[0.7, 0.2, 0.1]] * 3, np.float32)
    wide = many_targets([[7, 8, 9], [1, 2, 3], [4, 4, 6]], weights=weights)
    result = trainer.forward_backward([data[0], wide, data[1]], "cross_entropy").result(60)
    found = [output["logprobs"] for output in result.loss_fn_outputs]
    assert [it.shape for it in found] == [[6], [3, 3], [4]]
    expected = -sum(it.to_numpy().sum() for it in (found[0], found[2]))
    expected -= (found[1].to_numpy() * weights).sum()
    assert result.metrics["loss:sum"] == pytest.approx(expected, rel=1e-4)


def importance_sampling(
    data: "list[tinker.Datum]", rows: "list[torch.Tensor]"
) -> "tuple[torch.Tensor, dict[str, float]]":
    import torch

    losses: list[torch.Tensor] = []
    for datum, logprobs in zip(data, rows, strict=True):
        inputs = datum.loss_fn_inputs
        ratio = torch.exp(logprobs - inputs["logprobs"].to_torch())
        losses.append(-(ratio * inputs["advantages"].to_torch()).sum())
    return torch.stack(losses).sum(), {"mine": 1.5}


def test_a_custom_loss_learns_what_the_same_built_in_loss_learns(
    service: "tinker.ServiceClient", sampled: list[dict[str, Any]], data: "list[tinker.Datum]"
) -> None:
    policy = policy_data(sampled, "importance_sampling")
    clients = [
        service.create_lora_training_client("tiny", rank=4, seed=2).result(60) for _ in range(2)
    ]
    for _ in range(2):
        built_in = clients[0].forward_backward(policy, "importance_sampling").result(60)
        custom = clients[1].forward_backward_custom(policy, importance_sampling).result(60)
        assert custom.metrics["loss:sum"] == pytest.approx(built_in.metrics["loss:sum"], rel=1e-4)
        assert custom.metrics["mine"] == 1.5
        norms = [learn(client, learning_rate=1e-3, eps=SMOOTH) for client in clients]
        assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    built_in, custom = (scores(client, data) for client in clients)
    np.testing.assert_allclose(built_in, custom, atol=1e-3)


def test_a_custom_loss_may_compare_data_and_be_awaited(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]"
) -> None:
    import tinker
    import torch

    def preference(_data: Any, rows: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        margin = rows[0].sum() - rows[1].sum()
        return -torch.nn.functional.logsigmoid(margin / 10), {"margin": margin.item()}

    async def train() -> list[float]:
        margins: list[float] = []
        for _ in range(4):
            passed = trainer.forward_backward_custom(data, preference)
            stepped = trainer.optim_step(tinker.AdamParams(learning_rate=1e-2))
            margins.append((await passed).metrics["margin"])
            await stepped
        return margins

    margins = asyncio.run(train())
    assert margins[-1] > margins[0] + 1


def test_a_traced_custom_loss_runs_with_many_targets(
    service: "tinker.ServiceClient", trainer: "tinker.TrainingClient"
) -> None:
    import torch

    def distillation(
        logprobs: torch.Tensor, teacher: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = -(teacher * logprobs).sum()
        return loss, {"custom/distillation:sum": loss}

    handle = service.create_custom_loss(distillation, {"logprobs": 2, "teacher": 2}).result(60)
    teacher = np.array([[0.8, 0.2], [0.5, 0.5]], np.float32)
    datum = many_targets([[7, 8], [9, 10]], teacher=teacher)
    before, after = [], []
    for losses in (before, after):
        result = trainer.forward_backward_custom([datum], handle).result(60)
        losses.append(result.metrics["custom/distillation:sum"])
        learn(trainer, learning_rate=1e-2)
    assert after < before


def test_passes_accumulate_until_a_step(
    service: "tinker.ServiceClient", data: "list[tinker.Datum]"
) -> None:
    together, apart = (
        service.create_lora_training_client("tiny", rank=4, seed=5).result(60) for _ in range(2)
    )
    for _ in range(3):
        together.forward_backward(data, "cross_entropy")
        for datum in data:
            apart.forward_backward([datum], "cross_entropy")
        norms = [learn(client, learning_rate=1e-2, eps=SMOOTH) for client in (together, apart)]
        assert norms[0] == pytest.approx(norms[1], rel=1e-3)
    np.testing.assert_allclose(scores(together, data), scores(apart, data), atol=1e-2)


def test_a_learning_rate_of_zero_changes_no_weight(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]"
) -> None:
    before = scores(trainer, data)
    trainer.forward_backward(data, "cross_entropy")
    assert learn(trainer, learning_rate=0, weight_decay=0.5) > 0
    np.testing.assert_array_equal(scores(trainer, data), before)


@pytest.mark.parametrize(
    ("field", "value"),
    [("learning_rate", -1e-3), ("beta1", 1.0), ("eps", 0.0), ("weight_decay", -0.1)],
)
def test_adam_parameters_that_make_no_sense_are_refused_by_name(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]", field: str, value: float
) -> None:
    import tinker

    trainer.forward_backward(data, "cross_entropy")
    with pytest.raises(tinker.RequestFailedError, match=rf"adam_params\.{field}: "):
        learn(trainer, **{field: value})
    assert learn(trainer, learning_rate=1e-3) > 0
