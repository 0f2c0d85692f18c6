"""The REST client: what runs, checkpoints and sessions there are."""

import importlib.util
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from rsigym.local.tinker.process import TinkerServer

if TYPE_CHECKING:
    import tinker


@pytest.fixture
def rest(server: TinkerServer) -> "tinker.RestClient":
    import tinker

    return tinker.RestClient(base_url=server.url, api_key=server.api_key)


def test_capabilities_name_the_models(rest: "tinker.RestClient") -> None:
    models = rest.get_server_capabilities().result(60).supported_models
    assert [(it.model_name, it.max_context_length) for it in models] == [
        ("tiny", 1024),
        ("alien", 1024),
    ]
    assert all(it.trainable and it.sampleable for it in models)


def test_runs_and_checkpoints_are_listed(
    rest: "tinker.RestClient", trainer: "tinker.TrainingClient"
) -> None:
    state = trainer.save_state("a", user_metadata={"note": "first"}).result(60).path
    sampler = trainer.save_weights_for_sampler("b", ttl_seconds=3600).result(60).path
    found = rest.list_checkpoints(trainer.model_id).result(60).checkpoints
    assert [it.tinker_path for it in found] == [state, sampler]
    assert [it.checkpoint_type for it in found] == ["training", "sampler"]
    assert found[0].user_metadata == {"note": "first"}
    assert found[0].expires_at is None
    assert found[1].expires_at is not None
    assert (found[0].size_bytes or 0) > (found[1].size_bytes or 0) > 1000
    run = rest.get_training_run(trainer.model_id).result(60)
    assert (run.base_model, run.lora_rank) == ("tiny", 4)
    assert run.last_checkpoint is not None
    assert run.last_checkpoint.tinker_path == state
    everything = rest.list_user_checkpoints(limit=1).result(60)
    assert [it.tinker_path for it in everything.checkpoints] == [sampler]
    newest = rest.list_training_runs(limit=1).result(60)
    assert newest.training_runs[0].training_run_id == trainer.model_id
    assert newest.cursor.total_count >= 1


def test_weights_info_describes_a_checkpoint(
    rest: "tinker.RestClient", trainer: "tinker.TrainingClient"
) -> None:
    path = trainer.save_state("a").result(60).path
    info = rest.get_weights_info_by_tinker_path(path).result(60)
    assert (info.base_model, info.lora_rank, info.train_mlp) == ("tiny", 4, True)


def test_a_deleted_checkpoint_is_gone(
    rest: "tinker.RestClient", trainer: "tinker.TrainingClient", service: "tinker.ServiceClient"
) -> None:
    import tinker

    path = trainer.save_weights_for_sampler("short").result(60).path
    rest.set_checkpoint_ttl_from_tinker_path(path, 3600).result(60)
    assert rest.list_checkpoints(trainer.model_id).result(60).checkpoints[0].expires_at
    rest.delete_checkpoint_from_tinker_path(path).result(60)
    with pytest.raises(tinker.NotFoundError, match="the run has no checkpoint"):
        service.create_sampling_client(model_path=path).result(60)


@pytest.mark.parametrize("seconds", [3599, 10**9])
def test_a_ttl_is_an_hour_to_ten_years(
    rest: "tinker.RestClient", trainer: "tinker.TrainingClient", seconds: int
) -> None:
    import tinker

    with pytest.raises(tinker.RequestFailedError, match="ttl_seconds: "):
        trainer.save_state("a", ttl_seconds=seconds).result(60)
    path = trainer.save_state("a").result(60).path
    with pytest.raises(tinker.UnprocessableEntityError, match="ttl_seconds: "):
        rest.set_checkpoint_ttl_from_tinker_path(path, seconds).result(60)


def test_a_session_lists_what_it_has_open(
    rest: "tinker.RestClient", trainer: "tinker.TrainingClient"
) -> None:
    session_id = trainer.model_id.partition(":")[0]
    assert session_id in rest.list_sessions().result(60).sessions
    session = rest.get_session(session_id).result(60)
    assert trainer.model_id in session.training_run_ids


@pytest.mark.parametrize(
    "ask",
    [
        lambda rest, path: rest.publish_checkpoint_from_tinker_path(path),
        lambda rest, path: rest.unpublish_checkpoint_from_tinker_path(path),
        lambda rest, path: rest.copy_weights(path, "project"),
        lambda rest, _: rest.assign_session_project("session", "project"),
        lambda rest, _: rest.export_session_trace("session"),
        lambda rest, _: rest.get_audit_log(),
        lambda rest, _: rest.get_billing_usage(date(2026, 1, 1), date(2026, 2, 1)),
        lambda rest, _: rest.get_current_checkpoint_storage_usage(),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_the_server_lacks_is_refused_at_once(rest: "tinker.RestClient", ask: Any) -> None:
    import tinker

    with pytest.raises(tinker.NotFoundError, match="the local Tinker server does not offer"):
        ask(rest, "tinker://x/weights/y").result(60)


def sdk_paths() -> list[str]:
    """Every path below /api/v1/ that the SDK's source names, `x` where a name is filled in."""
    spec = importlib.util.find_spec("tinker")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    sources = Path(spec.submodule_search_locations[0]).rglob("*.py")
    text = "".join(it.read_text() for it in sources if not it.name.endswith("_test.py"))
    return sorted({re.sub(r"{.*?}", "x", it) for it in re.findall(r'"/api/v1/([^"]+)"', text)})


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_no_path_of_the_sdk_gets_an_error_that_it_repeats(
    method: str, call: Callable[..., httpx.Response]
) -> None:
    paths = sdk_paths()
    assert len(paths) > 30
    answers = {path: call(path, {}, method) for path in paths}
    repeated = {path: it.text for path, it in answers.items() if it.status_code in (408, 429)}
    broken = {path: it.text for path, it in answers.items() if it.status_code >= 500}
    assert (repeated, broken) == ({}, {})
    refusals = [it for it in answers.values() if it.status_code >= 400]
    assert all(it.json()["detail"] for it in refusals)


def test_a_request_that_makes_no_sense_is_refused(call: Callable[..., httpx.Response]) -> None:
    assert call("training_runs?limit=x", method="GET").status_code == 400
    assert call("retrieve_future", {"request_id": "nobody:sample:0:1"}).status_code == 404
