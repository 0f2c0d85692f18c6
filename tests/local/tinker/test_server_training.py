"""Training through the unmodified SDK, over HTTP."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    import tinker


def step(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]", learning_rate: float = 1e-2
) -> float:
    """One pipelined step; the loss before it, per token."""
    import tinker

    passed = trainer.forward_backward(data, "cross_entropy")
    stepped = trainer.optim_step(tinker.AdamParams(learning_rate=learning_rate))
    loss = passed.result(60).metrics["loss:sum"]
    stepped.result(60)
    return loss / sum(datum.model_input.length for datum in data)


def logprobs(trainer: "tinker.TrainingClient", data: "list[tinker.Datum]") -> list[list[float]]:
    outputs = trainer.forward(data, "cross_entropy").result(60).loss_fn_outputs
    return [list(map(float, output["logprobs"].data)) for output in outputs]


def test_loss_falls_over_20_steps(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]"
) -> None:
    losses = [step(trainer, data) for _ in range(20)]
    assert losses[-1] < losses[0] / 4


def test_the_loss_is_the_sum_of_the_logprobs_that_come_back(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]"
) -> None:
    result = trainer.forward(data, "cross_entropy").result(60)
    rows = [output["logprobs"].to_numpy() for output in result.loss_fn_outputs]
    assert [row.shape for row in rows] == [(datum.model_input.length,) for datum in data]
    assert result.metrics["loss:sum"] == pytest.approx(-sum(row.sum() for row in rows), rel=1e-4)


def test_submitting_ahead_gives_what_waiting_gives(
    service: "tinker.ServiceClient", data: "list[tinker.Datum]"
) -> None:
    import tinker

    adam = tinker.AdamParams(learning_rate=1e-2)
    patient = service.create_lora_training_client("tiny", rank=4, seed=1).result(60)
    hasty = service.create_lora_training_client("tiny", rank=4, seed=1).result(60)
    waited = [step(patient, data) for _ in range(4)]
    passes: list[Any] = []
    for _ in range(4):
        passes.append(hasty.forward_backward(data, "cross_entropy"))
        hasty.optim_step(adam)
    tokens = sum(datum.model_input.length for datum in data)
    assert [it.result(60).metrics["loss:sum"] / tokens for it in passes] == waited


def test_two_clients_at_once_do_not_disturb_each_other(
    service: "tinker.ServiceClient", data: "list[tinker.Datum]"
) -> None:
    alone = service.create_lora_training_client("tiny", rank=4, seed=3).result(60)
    expected = [step(alone, data) for _ in range(3)]
    first, second = (
        service.create_lora_training_client("tiny", rank=4, seed=3).result(60) for _ in range(2)
    )
    seen: list[float] = []
    for _ in range(3):
        seen.append(step(first, data))
        step(second, data[:1], learning_rate=5e-2)
    assert seen == pytest.approx(expected, rel=1e-5)


def test_a_batch_sent_in_chunks_comes_back_whole(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]"
) -> None:
    many = data * 520  # The SDK sends at most 1024 data in one request, the first of them last.
    result = trainer.forward(many, "cross_entropy").result(120)
    assert len(result.loss_fn_outputs) == len(many)
    one = trainer.forward(data, "cross_entropy").result(60).metrics["loss:sum"]
    assert result.metrics["loss:sum"] == pytest.approx(520 * one, rel=1e-3)


def test_a_custom_loss_trains(trainer: "tinker.TrainingClient", data: "list[tinker.Datum]") -> None:
    import tinker
    import torch

    def loss(_data: Any, rows: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        return -sum((row.sum() for row in rows), torch.tensor(0.0)), {"rows": float(len(rows))}

    before = trainer.forward(data, "cross_entropy").result(60).metrics["loss:sum"]
    for _ in range(3):
        done = trainer.forward_backward_custom(data, loss)
        trainer.optim_step(tinker.AdamParams(learning_rate=1e-2)).result(60)
        assert done.result(60).metrics["rows"] == 2
    assert trainer.forward(data, "cross_entropy").result(60).metrics["loss:sum"] < before


@pytest.mark.parametrize("optimizer", [True, False])
def test_a_saved_state_goes_on_as_if_uninterrupted(
    service: "tinker.ServiceClient",
    trainer: "tinker.TrainingClient",
    data: "list[tinker.Datum]",
    optimizer: bool,
) -> None:
    for _ in range(3):
        step(trainer, data)
    path = trainer.save_state("here").result(60).path
    uninterrupted = [step(trainer, data) for _ in range(3)]
    resumed = (
        service.create_training_client_from_state_with_optimizer(path)
        if optimizer
        else service.create_training_client_from_state(path)
    ).result(60)
    losses = [step(resumed, data) for _ in range(3)]
    assert losses[0] == uninterrupted[0]
    assert (losses == uninterrupted) is optimizer
    assert resumed.get_info().lora_rank == 4


def test_load_state_takes_a_model_back(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]"
) -> None:
    path = trainer.save_state("start").result(60).path
    before = logprobs(trainer, data)
    step(trainer, data, learning_rate=5e-2)
    assert logprobs(trainer, data) != before
    with pytest.warns(FutureWarning, match="load_state"):
        trainer.load_state(path).result(60)
    assert logprobs(trainer, data) == before


def test_saving_over_a_checkpoint_needs_overwrite(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]", service: "tinker.ServiceClient"
) -> None:
    import tinker

    trainer.save_state("same").result(60)
    step(trainer, data)
    with pytest.raises(tinker.RequestFailedError, match="exists: choose another name"):
        trainer.save_state("same").result(60)
    path = trainer.save_state("same", overwrite=True).result(60).path
    again = service.create_training_client_from_state(path).result(60)
    assert logprobs(again, data) == logprobs(trainer, data)


def test_a_bad_request_fails_in_its_turn_and_training_goes_on(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]"
) -> None:
    import tinker

    unknown: Any = "no_such_loss"
    endless = tinker.Datum(
        model_input=tinker.ModelInput.from_ints([1] * 2000),
        loss_fn_inputs={"target_tokens": [1] * 2000, "weights": [1.0] * 2000},  # pyright: ignore[reportArgumentType]
    )
    failing = {
        "no_such_loss": trainer.forward_backward(data, unknown),
        "1024": trainer.forward_backward([endless], "cross_entropy"),
        "not 'x'": trainer.forward_backward(data, "ppo", {"clip_low_threshold": "x"}),
        "Adam": trainer.optim_step(tinker.DimuonParams(learning_rate=1e-3)),
        "cannot name": trainer.save_state("../out"),
    }
    good = trainer.forward_backward(data, "cross_entropy")
    for message, future in failing.items():
        with pytest.raises(tinker.RequestFailedError, match=message) as caught:
            future.result(60)
        assert caught.value.category == "user"
    assert good.result(60).metrics["loss:sum"] > 0


def test_a_repeated_submit_is_carried_out_once(
    service: "tinker.ServiceClient",
    trainer: "tinker.TrainingClient",
    data: "list[tinker.Datum]",
    call: Callable[..., httpx.Response],
) -> None:
    import tinker

    once = service.create_lora_training_client("tiny", rank=4, seed=1).result(60)
    step(once, data)
    trainer.forward_backward(data, "cross_entropy").result(60)
    submit = {
        "model_id": trainer.model_id,
        "seq_id": 2,
        "adam_params": tinker.AdamParams(learning_rate=1e-2).model_dump(),
    }
    promised = {call("optim_step", submit).json()["request_id"] for _ in range(3)}
    assert len(promised) == 1
    trainer.optim_step(tinker.AdamParams(learning_rate=1e-2)).result(60)  # Number 2 once more.
    assert logprobs(trainer, data) == logprobs(once, data)


def test_what_is_not_offered_is_refused_by_name(
    service: "tinker.ServiceClient", call: Callable[..., httpx.Response]
) -> None:
    import tinker

    with pytest.raises(tinker.BadRequestError, match="offers tiny, alien"):
        service.create_lora_training_client("gpt-x").result(60)
    with pytest.raises(tinker.BadRequestError, match="dimuon"):
        service.create_lora_training_client(
            "tiny", optimizer=tinker.DimuonOptimizerConfig()
        ).result(60)
    assert call("forward_backward", {"not": "protobuf"}).status_code == 400
    assert call("optim_step", {"model_id": 7}).status_code == 422


def test_an_unloaded_model_is_gone(
    trainer: "tinker.TrainingClient", call: Callable[..., httpx.Response]
) -> None:
    model = {"model_id": trainer.model_id}
    assert call("get_info", model).json()["model_data"]["model_name"] == "tiny"
    promise = call("unload_model", model).json()
    assert call("retrieve_future", promise).json()["type"] == "unload_model"
    gone = call("get_info", model)
    assert gone.status_code == 404
    assert "unloaded" in gone.json()["detail"]


def test_the_sdk_is_told_where_the_tokenizer_is(
    trainer: "tinker.TrainingClient", tiny_folder: Path
) -> None:
    info = trainer.get_info()
    assert info.model_data.tokenizer_id == str(tiny_folder)
    assert (info.model_data.model_name, info.lora_rank, info.is_lora) == ("tiny", 4, True)
