"""One local Tinker server on a tiny model, and the unmodified SDK speaking to it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from rsigym.local.tinker.process import TinkerServer, tinker_server
from tests.tiny_model import make_tiny_model

if TYPE_CHECKING:
    # Imported where it is used: it takes seconds.
    import tinker

    from rsigym.local.tinker.engine import Engine

type Call = Callable[..., httpx.Response]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def engine(tiny_folder: Path) -> "Iterator[Engine]":
    from tests.local.tinker.engine_support import running_engine

    with running_engine(tiny_folder) as engine:
        yield engine


@pytest.fixture(scope="session")
def server(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinkerServer]:
    store = tmp_path_factory.mktemp("store")
    alien = tmp_path_factory.mktemp("models") / "alien"
    alien.mkdir()
    config = {"model_type": "alien", "max_position_embeddings": 1024}
    (alien / "config.json").write_text(json.dumps(config))
    models = {"tiny": tiny_folder, "alien": alien}
    with tinker_server(models, store=store, dtype="float32", threads=1) as running:
        yield running


@pytest.fixture(scope="session")
def service(server: TinkerServer) -> "Iterator[tinker.ServiceClient]":
    import tinker

    client = tinker.ServiceClient(base_url=server.url, api_key=server.api_key)
    yield client
    client.close("success").result(30)


@pytest.fixture
def trainer(service: "tinker.ServiceClient") -> "tinker.TrainingClient":
    return service.create_lora_training_client("tiny", rank=4, seed=1).result(60)


@pytest.fixture(scope="session")
def base(service: "tinker.ServiceClient") -> "tinker.SamplingClient":
    return service.create_sampling_client(base_model="tiny").result(60)


@pytest.fixture(scope="session")
def data() -> "list[tinker.Datum]":
    """Two short sequences to learn by heart."""
    import tinker

    def datum(tokens: list[int]) -> tinker.Datum:
        inputs: dict[str, Any] = {"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)}
        return tinker.Datum(
            model_input=tinker.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs
        )

    return [datum([5, 17, 42, 17, 99, 120, 8]), datum([6, 33, 61, 200, 7])]


@pytest.fixture(scope="session")
def call(server: TinkerServer) -> Iterator[Call]:
    """A plain HTTP request, for what the SDK would not send: `call("asample", {...})`."""
    with httpx.Client(
        base_url=f"{server.url}/api/v1/", headers={"x-api-key": server.api_key}, timeout=60
    ) as client:

        def request(path: str, body: object = None, method: str = "POST") -> httpx.Response:
            return client.request(method, path, json=body)

        yield request
