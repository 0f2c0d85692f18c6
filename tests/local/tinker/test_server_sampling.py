"""Sampling through the unmodified SDK, over HTTP."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tokenizers import Tokenizer

if TYPE_CHECKING:
    import tinker

PROMPT = [5, 17, 42, 17]


def sample(
    client: "tinker.SamplingClient", prompt: list[int] = PROMPT, n: int = 1, **params: Any
) -> list[list[int]]:
    """Token lists of n samples; greedy and eight tokens long unless told otherwise."""
    settings = {"max_tokens": 8, "temperature": 0.0, "stop": []} | params
    return [list(it.tokens) for it in submit(client, prompt, n, **settings).result(60).sequences]


def submit(
    client: "tinker.SamplingClient", prompt: list[int], n: int, **params: Any
) -> "tinker.APIFuture[tinker.SampleResponse]":
    import tinker

    return client.sample(tinker.ModelInput.from_ints(prompt), n, tinker.SamplingParams(**params))


def learn(trainer: "tinker.TrainingClient", data: "list[tinker.Datum]") -> None:
    import tinker

    for _ in range(40):
        trainer.forward_backward(data, "cross_entropy")
        trainer.optim_step(tinker.AdamParams(learning_rate=1e-2)).result(60)


def test_a_checkpoint_samples_what_it_was_trained_on_the_moment_training_ends(
    service: "tinker.ServiceClient",
    trainer: "tinker.TrainingClient",
    base: "tinker.SamplingClient",
    data: "list[tinker.Datum]",
) -> None:
    learn(trainer, data)
    path = trainer.save_weights_for_sampler("done").result(60).path
    assert path == f"tinker://{trainer.model_id}/sampler_weights/done"
    trained = service.create_sampling_client(model_path=path).result(60)
    taught = list(data[0].loss_fn_inputs["target_tokens"].data)
    assert sample(trained, [5], max_tokens=len(taught)) == [taught]
    assert sample(base, [5], max_tokens=len(taught)) != [taught]
    unnamed = trainer.save_weights_and_get_sampling_client().result(60)
    assert sample(unnamed) == sample(trained)
    assert trained.get_base_model() == "tiny"


def test_a_prompt_that_begins_like_an_earlier_one_says_how_much_was_cached(
    base: "tinker.SamplingClient",
) -> None:
    prompt = [7 + i % 90 for i in range(80)]
    settings: dict[str, Any] = {"max_tokens": 2, "temperature": 0.0}
    first, again, longer = (
        submit(base, tokens, 2, **settings).result(60)
        for tokens in (prompt, prompt, [*prompt, *prompt])
    )
    hits = [answer.prompt_cache_hit_tokens for answer in (first, again, longer)]
    assert hits == [0, 64, 80]
    assert [it.tokens for it in again.sequences] == [it.tokens for it in first.sequences]


def test_a_sampler_keeps_its_weights_while_training_goes_on(
    trainer: "tinker.TrainingClient", base: "tinker.SamplingClient", data: "list[tinker.Datum]"
) -> None:
    snapshot = trainer.save_weights_and_get_sampling_client().result(60)
    inflight = trainer.save_weights_and_get_sampling_client(kind="inflight").result(60)
    learn(trainer, data)
    assert sample(snapshot) == sample(inflight) == sample(base)
    trainer.save_weights_and_get_sampling_client(kind="inflight").result(60)
    assert sample(snapshot) == sample(base)
    assert sample(inflight) != sample(base)


def test_64_samples_at_once_are_all_answered(base: "tinker.SamplingClient") -> None:
    prompts = [[5, 17, n] for n in range(64)]
    futures = [
        submit(base, prompt, 1, max_tokens=12, temperature=0.0, stop=[]) for prompt in prompts
    ]
    sequences = [future.result(120).sequences[0] for future in futures]
    assert all(len(it.tokens) == 12 and it.stop_reason == "length" for it in sequences)
    assert len({it.sequence_id for it in sequences}) == 64
    assert list(sequences[7].tokens) == sample(base, prompts[7], max_tokens=12)[0]


def test_n_samples_follow_the_seed(base: "tinker.SamplingClient") -> None:
    seeded = sample(base, n=4, temperature=1.0, seed=7)
    assert sample(base, n=4, temperature=1.0, seed=7) == seeded
    assert sample(base, n=4, temperature=1.0, seed=8) != seeded
    assert len({tuple(tokens) for tokens in seeded}) == 4


def test_a_stop_token_ends_a_sample_and_is_part_of_it(base: "tinker.SamplingClient") -> None:
    free = sample(base)[0]
    cut = submit(base, PROMPT, 1, max_tokens=8, temperature=0.0, stop=[free[3]])
    stopped = cut.result(60).sequences[0]
    assert list(stopped.tokens) == free[: free.index(free[3]) + 1]
    assert stopped.stop_reason == "stop"


def test_a_stop_string_ends_a_sample(base: "tinker.SamplingClient", tiny_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
    free = sample(base, max_tokens=64)[0]
    texts = [tokenizer.decode([token]) for token in free]
    place = next(i for i, text in enumerate(texts) if text.isascii() and text.isprintable())
    cut = submit(base, PROMPT, 1, max_tokens=64, temperature=0.0, stop=texts[place])
    stopped = cut.result(60).sequences[0]
    assert list(stopped.tokens) == free[: place + 1]
    assert stopped.stop_reason == "stop"


def test_compute_logprobs_agrees_with_sampling(base: "tinker.SamplingClient") -> None:
    import tinker

    greedy = submit(base, PROMPT, 1, max_tokens=6, temperature=0.0, stop=[])
    sequence = greedy.result(60).sequences[0]
    whole = tinker.ModelInput.from_ints(PROMPT + list(sequence.tokens))
    scores = base.compute_logprobs(whole).result(60)
    assert scores[0] is None
    assert scores[len(PROMPT) :] == pytest.approx(sequence.logprobs, abs=1e-3)
    tail = base.compute_logprobs(whole, prompt_logprobs_last_n=2).result(60)
    assert tail[:-2] == [None] * (whole.length - 2)
    assert tail[-2:] == pytest.approx(scores[-2:], abs=1e-3)


def test_the_likeliest_prompt_tokens_come_with_their_logprobs(
    base: "tinker.SamplingClient",
) -> None:
    import tinker

    greedy = sample(base, max_tokens=1)[0]
    scored = base.sample(
        tinker.ModelInput.from_ints(PROMPT + greedy),
        1,
        tinker.SamplingParams(max_tokens=1),
        include_prompt_logprobs=True,
        topk_prompt_logprobs=3,
    ).result(60)
    table = scored.topk_prompt_logprobs
    assert table is not None
    assert scored.prompt_logprobs is not None
    assert table[0] is None
    last = table[-1]
    assert last is not None
    assert last[0][0] == greedy[0]
    assert last[0][1] == pytest.approx(scored.prompt_logprobs[-1], abs=1e-4)


def test_bad_sample_requests_say_what_to_do(base: "tinker.SamplingClient") -> None:
    import tinker

    with pytest.raises(tinker.RequestFailedError, match="1024") as caught:
        submit(base, [1] * 1500, 1, max_tokens=4).result(60)
    assert caught.value.category == "user"
    with pytest.raises(tinker.RequestFailedError):
        submit(base, [10**6], 1, max_tokens=4).result(60)
    with pytest.raises(tinker.UnprocessableEntityError, match="top_p"):
        submit(base, PROMPT, 1, top_p=2.0).result(60)
    image = tinker.types.ImageChunk(data=b"x", format="png")
    with pytest.raises(tinker.BadRequestError, match="text tokens only"):
        base.sample(
            tinker.ModelInput(chunks=[image]), 1, tinker.SamplingParams(max_tokens=1)
        ).result(60)
    assert len(sample(base)[0]) == 8


def test_a_model_that_cannot_be_loaded_fails_its_requests(service: "tinker.ServiceClient") -> None:
    import tinker

    alien = service.create_sampling_client(base_model="alien").result(60)
    for _ in range(2):
        with pytest.raises(tinker.RequestFailedError, match="alien") as caught:
            sample(alien)
        assert caught.value.category == "user"


def test_the_two_kinds_of_checkpoint_are_not_interchangeable(
    service: "tinker.ServiceClient", trainer: "tinker.TrainingClient"
) -> None:
    import tinker

    state = trainer.save_state("state").result(60).path
    sampler = trainer.save_weights_for_sampler("sampler").result(60).path
    with pytest.raises(tinker.BadRequestError, match="save_weights_for_sampler"):
        service.create_sampling_client(model_path=state).result(60)
    with pytest.raises(tinker.BadRequestError, match="save_state"):
        service.create_training_client_from_state(sampler).result(60)
    with (
        pytest.warns(FutureWarning, match="load_state"),
        pytest.raises(tinker.RequestFailedError, match="save_state"),
    ):
        trainer.load_state(sampler).result(60)


def test_a_missing_checkpoint_is_answered_with_those_that_exist(
    service: "tinker.ServiceClient", trainer: "tinker.TrainingClient"
) -> None:
    import tinker

    trainer.save_weights_for_sampler("there").result(60)
    missing = f"tinker://{trainer.model_id}/sampler_weights/elsewhere"
    with pytest.raises(tinker.NotFoundError, match="sampler_weights/there"):
        service.create_sampling_client(model_path=missing).result(60)
    for path in ("tinker://a/b", "tinker://../weights/x/y", "tinker://x/other/y"):
        with pytest.raises(tinker.BadRequestError, match="is not a checkpoint"):
            service.create_sampling_client(model_path=path).result(60)
    with pytest.raises(tinker.BadRequestError, match="cannot name a run"):
        service.create_sampling_client(model_path="tinker://../sampler_weights/x").result(60)


def test_a_cancelled_sample_is_answered_as_cancelled(
    base: "tinker.SamplingClient", call: Callable[..., httpx.Response]
) -> None:
    long = {
        "sampling_session_id": base._sampling_session_id,  # pyright: ignore[reportPrivateUsage]
        "seq_id": 10**6,
        "num_samples": 64,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": PROMPT}]},
        "sampling_params": {"max_tokens": 1000, "stop": []},
    }
    promise = call("asample", long).json()
    assert call("asample", long).json() == promise
    assert call("cancel_future", {"request_id": promise["request_id"]}).status_code == 200
    answer = call("retrieve_future", {"request_id": promise["request_id"]}).json()
    assert answer["category"] == "user"
    assert "cancelled" in answer["error"]
    assert len(sample(base)[0]) == 8
