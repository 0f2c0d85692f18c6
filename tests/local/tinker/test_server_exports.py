"""Downloading weights, as the SDK and its command line do it."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load

from rsigym.local.tinker.links import Links
from rsigym.local.tinker.process import TinkerServer

if TYPE_CHECKING:
    import tinker

PEFT_FILES = {"adapter_config.json", "adapter_model.safetensors"}
LATER = 2**40


@pytest.fixture
def rest(server: TinkerServer) -> "tinker.RestClient":
    import tinker

    return tinker.RestClient(base_url=server.url, api_key=server.api_key)


def fetch(url: str) -> bytes:
    """Without the key, as the SDK's command line does."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def test_an_export_is_the_adapter_in_pefts_format(
    trainer: "tinker.TrainingClient", data: "list[tinker.Datum]", rest: "tinker.RestClient"
) -> None:
    import tinker

    trainer.forward_backward(data, "cross_entropy")
    trainer.optim_step(tinker.AdamParams(learning_rate=1e-2)).result(60)
    path = trainer.save_weights_external("final", ttl_seconds=3600).result(60).path
    assert path == f"tinker://{trainer.model_id}/external_weights/final"
    urls = rest.get_external_weights_urls(path).result(60).urls
    assert urls.keys() == PEFT_FILES
    config = json.loads(fetch(urls["adapter_config.json"]))
    assert (config["peft_type"], config["r"]) == ("LORA", 4)
    weights = load(fetch(urls["adapter_model.safetensors"]))
    learned = weights["base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"]
    assert learned.shape == (64, 4)
    assert learned.any()
    (listed,) = rest.list_checkpoints(trainer.model_id).result(60).checkpoints
    assert (listed.tinker_path, listed.checkpoint_type) == (path, "external")
    assert listed.expires_at is not None
    rest.delete_checkpoint_from_tinker_path(path).result(60)
    with pytest.raises(tinker.NotFoundError, match="the run has no checkpoint"):
        rest.get_external_weights_urls(path).result(60)


def test_the_sdks_command_line_downloads_a_training_checkpoint(
    server: TinkerServer,
    trainer: "tinker.TrainingClient",
    rest: "tinker.RestClient",
    tmp_path: Path,
) -> None:
    from click.testing import CliRunner
    from tinker.cli.__main__ import main_cli

    path = trainer.save_state("state").result(60).path
    env = {"TINKER_BASE_URL": server.url, "TINKER_API_KEY": server.api_key}
    words = ["--format", "json", "checkpoint", "download", path, "--output", str(tmp_path)]
    result = CliRunner().invoke(main_cli, words, env=env)
    assert result.exit_code == 0, result.output
    assert {file.name for file in tmp_path.glob("*/*")} == PEFT_FILES
    everything = rest.list_user_checkpoints(limit=1000).result(60).checkpoints
    assert all("download" not in it.tinker_path for it in everything)


def test_an_export_is_for_download_only(
    trainer: "tinker.TrainingClient", service: "tinker.ServiceClient", rest: "tinker.RestClient"
) -> None:
    import tinker

    path = trainer.save_weights_external("only").result(60).path
    with pytest.raises(tinker.BadRequestError, match="is an export and cannot be sampled from"):
        service.create_sampling_client(model_path=path).result(60)
    with pytest.raises(tinker.BadRequestError, match="is an export and cannot be trained on"):
        service.create_training_client_from_state(path).result(60)
    with pytest.raises(tinker.RequestFailedError, match="exists: choose another name"):
        trainer.save_weights_external("only").result(60)
    with pytest.raises(tinker.RequestFailedError, match="exports are not encrypted here"):
        trainer.save_weights_external("sealed", age_encryption_recipients=["age1x"]).result(60)
    with pytest.raises(tinker.NotFoundError):
        rest.get_external_weights_urls(path.replace("only", "other")).result(60)


def test_a_link_opens_its_own_file_and_nothing_else(
    trainer: "tinker.TrainingClient",
    rest: "tinker.RestClient",
    server: TinkerServer,
    call: Callable[..., httpx.Response],
) -> None:
    path = trainer.save_weights_external("linked").result(60).path
    urls = rest.get_external_weights_urls(path).result(60).urls
    link = httpx.URL(urls["adapter_config.json"])
    query = link.query.decode()
    assert httpx.get(link).status_code == 200
    assert httpx.get(link.copy_with(query=query[:-1].encode())).status_code == 401
    other = urls["adapter_model.safetensors"].partition("?")[0]
    assert httpx.get(f"{other}?{query}").status_code == 401
    assert httpx.get(f"{server.url}/api/v1/sessions?{query}").status_code == 401
    assert httpx.post(link).status_code == 401
    missing = call(f"downloads/{trainer.model_id}/linked/checkpoint.json", method="GET")
    assert missing.status_code == 404
    assert "it has adapter_config.json" in missing.json()["detail"]


@given(st.text(), st.text())
def test_only_what_was_signed_opens(path: str, query: str) -> None:
    links = Links()
    assert not links.opens(path, query)
    signed, _, its_query = links.sign("/a", LATER).partition("?")
    assert links.opens(signed, its_query)
    assert not links.opens(signed, its_query.replace(str(LATER), str(LATER + 1)))
    assert not Links().opens(signed, its_query)
    late = links.sign("/a", 1).partition("?")[2]
    assert not links.opens("/a", late)
