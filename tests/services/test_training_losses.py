"""Training by every loss against a real server: what it learns, costs and leaves behind."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from perf.plain import PlainModel
from rsigym.local.loss import open_loss
from rsigym.local.sandbox import choose_isolation
from rsigym.local.tinker.architecture import Architecture
from rsigym.local.tinker.lora import Adapter
from rsigym.local.tinker.specs import LoraSpec
from rsigym.operations.training import (
    AdamParams,
    LoraConfig,
    LossName,
    TrainingConfig,
    TrainingStatus,
    TrainingSubmit,
)
from rsigym.platform.errors import BadCall
from rsigym.services import tinker_trainer
from rsigym.services.renderer import Rendered, Renderer
from rsigym.services.tinker_client import TinkerClient
from rsigym.services.training import TrainingService
from rsigym.services.training_losses import LOSSES
from tests.services.conftest import PRICES, Bench

LORA = LoraConfig(rank=8, seed=1)
ADAM = AdamParams(learning_rate=0.003)
CONFIG = TrainingConfig(
    lora_config=LORA, adam_params=ADAM, lr_schedule="constant", batch_size=2, num_epochs=2
)
ANSWERS = {"What is 7 plus 5?": "12", "What is 3 plus 4?": "7", "Say yes.": "yes"}
SETTINGS: dict[LossName, dict[str, float]] = {
    "dro": {"beta": 0.5},
    "gspo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
}


@pytest.fixture
def service(bench: Bench, client: TinkerClient) -> Iterator[TrainingService]:
    service = TrainingService(
        client,
        bench.workspace,
        bench.folder / "records",
        PRICES,
        bench.jobs,
        "tiny",
        lambda source: open_loss(source, isolation=choose_isolation("auto"), call_s=20),
    )
    yield service
    service.close()


def _chat(question: str, answer: str) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]
    }


CHATS = [_chat(*pair) for pair in ANSWERS.items()]


def _config(**fields: Any) -> TrainingConfig:
    return TrainingConfig.model_validate(CONFIG.model_dump(exclude_unset=True) | fields)


def _submit(**fields: Any) -> TrainingSubmit:
    given: dict[str, Any] = {"data": CHATS, "config": CONFIG}
    return TrainingSubmit(**given | fields)


def _run(bench: Bench, service: TrainingService, **fields: Any) -> dict[str, Any]:
    """The status of a run that has ended, with the answer to its submission as `answer`."""
    answer = bench.call(service, _submit(**fields))
    handle = str(answer["handle"])
    bench.jobs.wait([handle], 120)
    return {**bench.call(service, TrainingStatus(handle=handle)), "answer": answer}


def _nll(status: dict[str, Any]) -> list[float]:
    return [row["nll"] for row in status["metrics"]]


def _rendered(renderer: Renderer, chats: list[dict[str, Any]]) -> list[Rendered]:
    return [renderer.render_training(chat["messages"], "all_assistant_messages") for chat in chats]


@pytest.fixture(scope="session")
def sampled(client: TinkerClient, renderer: Renderer) -> list[dict[str, Any]]:
    """The chats as tokens, with the untrained policy's own logprobs and the advantage 1.5."""
    rendered = _rendered(renderer, CHATS)
    with client.trainer("tiny", LORA, None) as trainer:
        logprobs = trainer.forward([each.tokens for each in rendered])
    return [
        {
            "tokens": each.tokens.tolist(),
            "weights": each.weights.tolist(),
            "logprobs": [0.0, *own.tolist()],
            "advantages": [1.5] * len(own) + [1.5],
        }
        for each, own in zip(rendered, logprobs, strict=True)
    ]


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_begins_at_its_formula_and_learns(
    bench: Bench, service: TrainingService, sampled: list[dict[str, Any]], loss: LossName
) -> None:
    config = _config(
        loss_fn=loss,
        loss_fn_config=SETTINGS.get(loss, {}),
        records="tokens",
        batch_size=3,
        num_epochs=6,
    )
    status = _run(bench, service, data=sampled, config=config)
    assert (status["state"], status["error"]) == ("done", None)
    first = status["metrics"][0]
    trained = sum(np.count_nonzero(each["weights"]) for each in sampled)
    # The ratios are 1 and the penalty is 0 as long as the policy is the one that sampled.
    value = {"cross_entropy": first["nll"] * trained}
    value |= dict.fromkeys(("dro", "cispo"), 1.5 * first["nll"] * trained)
    assert first["loss"] == pytest.approx(value.get(loss, -1.5 * trained), rel=1e-3)
    assert _nll(status)[-1] < _nll(status)[0] - 0.05

    passes = 2 if loss == "dro" else 1
    billed = passes * sum(row["tokens"] for row in status["metrics"]) * 1000
    assert bench.ledger.balance("run").spent == billed == status["cost_usd"] * 1e9
    assert status["cost_usd"] == status["answer"]["quote_usd"]


def test_chats_are_reinforced_by_one_advantage_each(
    bench: Bench, service: TrainingService, sampled: list[dict[str, Any]]
) -> None:
    chats = [
        {
            **chat,
            "advantage": -1 if index == 0 else 1,
            "logprobs": np.array(tokens["logprobs"])[np.array(tokens["weights"]) != 0].tolist(),
        }
        for index, (chat, tokens) in enumerate(zip(CHATS, sampled, strict=True))
    ]
    config = _config(loss_fn="importance_sampling", batch_size=3)
    first = _run(bench, service, data=chats, config=config)["metrics"][0]
    trained = [np.count_nonzero(each["weights"]) for each in sampled]
    assert first["loss"] == pytest.approx(trained[0] - trained[1] - trained[2], rel=1e-3)


def test_a_batch_in_many_requests_is_one_step(
    bench: Bench, service: TrainingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _run(bench, service, config=_config(batch_size=3))
    monkeypatch.setattr(tinker_trainer, "_REQUEST_TOKENS", 1)
    parts = _run(bench, service, config=_config(batch_size=3))
    assert _nll(parts) == pytest.approx(_nll(whole), rel=1e-4)
    assert len(_nll(parts)) == 2


PAGE = Path(__file__).parents[2] / "docs" / "training.md"
OWN = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
"""The loss that the documentation shows: cross-entropy."""


def test_an_own_loss_trains_as_the_same_built_in_one_and_costs_twice_as_much(
    bench: Bench, service: TrainingService
) -> None:
    bench.workspace.write_text("loss.py", OWN)
    built_in, own = (_run(bench, service, loss=loss) for loss in (None, "loss.py"))
    assert own["state"] == "done"
    assert _nll(own) == pytest.approx(_nll(built_in), rel=1e-4)
    losses = [[row["loss"] for row in status["metrics"]] for status in (own, built_in)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    trained = sum(row["metrics"]["tokens"] for row in own["metrics"])
    assert trained == 2 * own["answer"]["trained_tokens"]
    assert own["cost_usd"] == own["answer"]["quote_usd"] == 2 * built_in["cost_usd"]
    handle = own["handle"]
    assert (bench.folder / "records" / handle / "loss.py").read_text() == OWN


def test_an_own_loss_that_fails_ends_the_run_and_keeps_the_weights(
    bench: Bench, service: TrainingService
) -> None:
    failing = OWN.replace(
        "    weights", "    calls.append(1)\n    2 / (2 - len(calls))\n    weights"
    )
    bench.workspace.write_text("loss.py", "calls = []\n" + failing)
    status = _run(bench, service, loss="loss.py")
    assert status["state"] == "failed"
    assert status["error"]["side"] == "agent"
    assert "ZeroDivisionError" in status["error"]["message"]
    assert "2 / (2 - len(calls))" in status["error"]["traceback"]
    assert [each["step"] for each in status["checkpoints"]] == [1]
    (done,) = status["metrics"]
    left = status["answer"]["tokens"] - done["tokens"]  # of the batch that was only scored
    assert bench.ledger.balance("run").spent == (2 * done["tokens"] + left) * 1000


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"config": _config(loss_fn="ppo", loss_fn_config={"beta": 1.0})}, "leave out beta"),
        ({"config": _config(loss_fn="dro")}, "needs beta in loss_fn_config"),
        ({"config": _config(loss_fn="ppo", loss_fn_config={"clip_low_threshold": 2.0})}, "above"),
        ({"config": _config(loss_fn="ppo")}, 'record 1: the record has no "advantage"'),
        ({"config": _config(records="tokens")}, 'record 1: the record has no "tokens"'),
        ({"config": _config(loss_fn="cross_entropy"), "loss": "loss.py"}, "not both"),
        ({"loss": "none.py"}, "does not exist"),
        ({"loss": "bad.py"}, "is not Python"),
        ({"loss": "empty.py"}, "defines no loss_fn"),
        ({"loss": "long.py"}, "longer than"),
    ],
)
def test_what_no_loss_can_be_made_of_is_refused_before_it_costs(
    bench: Bench, service: TrainingService, fields: dict[str, Any], says: str
) -> None:
    bench.workspace.write_text("loss.py", OWN)
    bench.workspace.write_text("bad.py", "def loss_fn(:")
    bench.workspace.write_text("empty.py", "x = 1")
    bench.workspace.write_text("long.py", OWN + "#" * 2**17)
    with pytest.raises(BadCall, match=says):
        service.prepare(_submit(**fields))


def test_200_records_are_learned_as_a_plain_loop_learns_them(
    bench: Bench, service: TrainingService, tiny_folder: Path, renderer: Renderer
) -> None:
    chats = [_chat(f"What is {a} plus {b}?", str(a + b)) for a in range(20) for b in range(10)]
    bench.workspace.write_text("train.jsonl", "\n".join(map(json.dumps, chats)))
    config = _config(batch_size=16, lr_schedule="linear", warmup_steps=4)
    status = _run(bench, service, data="train.jsonl", config=config)
    assert status["answer"]["records"] == 200
    rates = [row["lr"] for row in status["metrics"]]
    plain = _plain_loop(tiny_folder, _rendered(renderer, chats), rates)
    assert len(plain) == len(_nll(status)) == 26
    assert plain[-1] < plain[0] / 2
    assert _nll(status) == pytest.approx(plain, rel=0.02)


def _plain_loop(folder: Path, data: list[Rendered], rates: list[float]) -> list[float]:
    """What a user writes, from the same adapter: the mean loss of each step's trained tokens."""
    model = PlainModel(folder, torch.float32, rank=LORA.rank)
    start = Adapter(Architecture.read(folder), LoraSpec(LORA.rank, seed=LORA.seed))
    start.initialise()
    with torch.no_grad():
        for ours, theirs in zip(model.parameters, start.named(start.vector).values(), strict=True):
            ours.copy_(theirs)
    optimizer = torch.optim.AdamW(
        model.parameters,
        betas=(ADAM.beta1, ADAM.beta2),
        eps=ADAM.eps,
        weight_decay=ADAM.weight_decay,
    )
    losses: list[float] = []
    for epoch in range(2):
        order = np.random.default_rng((LORA.seed, epoch)).permutation(len(data))
        for first in range(0, len(data), 16):
            batch = [data[index] for index in order[first : first + 16]]
            longest = max(len(each.tokens) for each in batch)
            tokens, weights = torch.zeros((2, len(batch), longest)).unbind()
            for row, each in enumerate(batch):
                tokens[row, : len(each.tokens)] = torch.from_numpy(each.tokens)
                weights[row, : len(each.tokens)] = torch.from_numpy(each.weights)
            tokens = tokens.long()
            loss = model.loss(tokens[:, :-1], tokens[:, 1:], weights[:, 1:])
            optimizer.param_groups[0]["lr"] = rates[len(losses)]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item() / float(weights[:, 1:].sum()))
    return losses
