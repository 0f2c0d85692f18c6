"""A server that is killed takes nothing with it that was saved, and its successor goes on."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from rsigym.local.tinker.process import TinkerServer, tinker_server

if TYPE_CHECKING:
    import tinker


def client(server: TinkerServer) -> "tinker.ServiceClient":
    import tinker

    return tinker.ServiceClient(base_url=server.url, api_key=server.api_key)


def losses(trainer: "tinker.TrainingClient", data: "list[tinker.Datum]", steps: int) -> list[float]:
    import tinker

    seen: list[float] = []
    for _ in range(steps):
        passed = trainer.forward_backward(data, "cross_entropy")
        trainer.optim_step(tinker.AdamParams(learning_rate=1e-2)).result(60)
        seen.append(passed.result(60).metrics["loss:sum"])
    return seen


def test_training_and_sampling_go_on_at_the_next_server_from_what_was_saved(
    tiny_folder: Path, tmp_path: Path, data: "list[tinker.Datum]"
) -> None:
    import tinker

    models, prompt = {"tiny": tiny_folder}, tinker.ModelInput.from_ints([5, 17, 42])
    greedy = tinker.SamplingParams(max_tokens=6, temperature=0)
    with tinker_server(models, store=tmp_path, dtype="float32", threads=1) as first:
        service = client(first)
        trainer = service.create_lora_training_client("tiny", rank=4, seed=1).result(60)
        losses(trainer, data, 3)
        state = trainer.save_state("kept").result(60).path
        weights = trainer.save_weights_for_sampler("kept").result(60).path
        sampler = service.create_sampling_client(weights).result(60)
        text = sampler.sample(prompt, 1, greedy).result(60).sequences[0].tokens
        expected = losses(trainer, data, 3)
        many = data * 100
        under_way = [trainer.forward_backward(many, "cross_entropy") for _ in range(20)]
        last = trainer.save_state("never")
        under_way[0].result(60)  # The next one is being computed now.
        os.kill(first.pid, signal.SIGKILL)
        assert "exit status -9" in first.wait()
        assert not first.alive()
        assert not last.future().done()
    with tinker_server(models, store=tmp_path, dtype="float32", threads=1) as second:
        rest = tinker.RestClient(base_url=second.url, api_key=second.api_key)
        left = rest.list_user_checkpoints().result(60).checkpoints
        assert {it.tinker_path for it in left} == {state, weights}
        with client(second) as successor:
            resumed = successor.create_training_client_from_state_with_optimizer(state).result(60)
            assert losses(resumed, data, 3) == expected
            again = successor.create_sampling_client(weights).result(60)
            assert again.sample(prompt, 1, greedy).result(60).sequences[0].tokens == text
        for path, body in (
            ("retrieve_future", {"request_id": f"{trainer.model_id}:1"}),
            ("optim_step", {"model_id": trainer.model_id, "seq_id": 9}),
        ):
            answer = httpx.post(
                f"{second.url}/api/v1/{path}", json=body, headers={"x-api-key": second.api_key}
            )
            assert answer.status_code == 404
            assert "go on from the last saved state" in answer.json()["detail"]
