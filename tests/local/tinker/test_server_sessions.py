"""Who may speak to the server, and what becomes of those who stop."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from rsigym.local.tinker.process import TinkerServer
from rsigym.local.tinker.server import tinker_app

KEY = "tml-test"
SILENCE_S = 4.0
SAMPLE = {
    "seq_id": 0,
    "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5, 17]}]},
    "sampling_params": {"max_tokens": 2},
}


@pytest.fixture
def impatient(tiny_folder: Path, tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a server, in this process, that gives clients up after a few seconds."""
    app = tinker_app(
        {"tiny": tiny_folder},
        store=tmp_path / "store",
        scratch=tmp_path / "scratch",
        api_key=KEY,
        dtype="float32",
        silence_s=SILENCE_S,
    )
    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=running.run, args=([listener],))
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/"
    with httpx.Client(base_url=url, headers={"x-api-key": KEY}, timeout=60) as client:
        yield client
    running.should_exit = True
    thread.join()


def open_sampler(client: httpx.Client) -> tuple[str, str]:
    session = client.post("create_session", json={}).json()["session_id"]
    body = {"session_id": session, "sampling_session_seq_id": 0, "base_model": "tiny"}
    return session, client.post("create_sampling_session", json=body).json()["sampling_session_id"]


def test_a_client_that_dies_leaves_nothing_running(impatient: httpx.Client, tmp_path: Path) -> None:
    session, sampler = open_sampler(impatient)
    endless = SAMPLE | {
        "sampling_session_id": sampler,
        "num_samples": 1024,
        "sampling_params": {"max_tokens": 1000, "stop": []},
    }
    abandoned = impatient.post("asample", json=endless).json()["request_id"]
    deadline = time.monotonic() + 60
    while impatient.get("sessions").json()["sessions"]:
        assert time.monotonic() < deadline, "the dead client's session is still open"
        time.sleep(0.2)
    gone = impatient.post("retrieve_future", json={"request_id": abandoned})
    assert gone.status_code == 410
    assert "has ended" in gone.json()["detail"]
    assert impatient.post("session_heartbeat", json={"session_id": session}).status_code == 410
    assert not list((tmp_path / "scratch").iterdir())
    _, sampler = open_sampler(impatient)
    promise = impatient.post("asample", json=SAMPLE | {"sampling_session_id": sampler}).json()
    answer = impatient.post("retrieve_future", json={"request_id": promise["request_id"]})
    assert answer.headers["content-type"] == "application/x-protobuf"


def test_a_closed_client_frees_what_it_held(
    server: TinkerServer, call: Callable[..., httpx.Response]
) -> None:
    import tinker

    with tinker.ServiceClient(base_url=server.url, api_key=server.api_key) as client:
        trainer = client.create_lora_training_client("tiny", rank=2).result(60)
        kept = client.create_lora_training_client("tiny", rank=2).result(60)
        kept.save_state("kept").result(60)
    session = trainer.model_id.partition(":")[0]
    assert session not in call("sessions", method="GET").json()["sessions"]
    assert call("get_info", {"model_id": trainer.model_id}).status_code == 410
    assert call(f"training_runs/{trainer.model_id}", method="GET").status_code == 404
    assert call(f"training_runs/{kept.model_id}", method="GET").status_code == 200


@pytest.mark.parametrize("key", ["tml-wrong", "", "tml-ü"])
@pytest.mark.parametrize("path", ["healthz", "get_server_capabilities", "sessions", "nowhere"])
def test_every_route_asks_for_the_key(server: TinkerServer, key: str, path: str) -> None:
    answer = httpx.get(f"{server.url}/api/v1/{path}", headers=[(b"x-api-key", key.encode())])
    assert answer.status_code == 401
    assert httpx.get(server.url).status_code == 401


def test_the_sdk_is_told_that_its_key_is_wrong(server: TinkerServer) -> None:
    import tinker

    client = tinker.ServiceClient(base_url=server.url, api_key="tml-wrong")
    with pytest.raises(tinker.AuthenticationError, match="wrong or missing API key"):
        client.create_sampling_client(base_model="tiny")
