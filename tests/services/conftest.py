"""The tiny model, its renderer, and one local Tinker server that serves it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rsigym.operations import Operation
from rsigym.platform.meter import Meter
from rsigym.platform.money import NANO
from rsigym.platform.prices import PriceBook, TokenPrice
from rsigym.platform.service import Evidence, Service
from rsigym.platform.sql_ledger import SQLLedger
from rsigym.services.jobs import Jobs
from rsigym.services.loop import BackgroundLoop
from rsigym.services.tinker_client import TinkerClient
from rsigym.services.workspace_files import Workspace
from tests.e2b_server import e2b_server
from tests.tiny_model import make_tiny_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rsigym.local.tinker.process import TinkerServer
    from rsigym.services.renderer import Renderer

__all__ = ["e2b_server"]

PRICES = PriceBook(
    "test", {"tiny": TokenPrice(prefill=10, cached_prefill=2, sample=30, train=1000)}, 1
)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tokenizer(tiny_folder: Path) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_folder)


@pytest.fixture(scope="session")
def renderer(tokenizer: "PreTrainedTokenizerBase") -> "Renderer":
    from rsigym.services.template_renderer import TemplateRenderer

    return TemplateRenderer(tokenizer)


@pytest.fixture(scope="session")
def server(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[TinkerServer]":
    from rsigym.local import tinker_server

    store = tmp_path_factory.mktemp("store")
    with tinker_server({"tiny": tiny_folder}, store=store, dtype="float32", threads=1) as running:
        yield running


@pytest.fixture(scope="session")
def client(server: "TinkerServer") -> Iterator[TinkerClient]:
    client = TinkerClient(lambda: (server.url, server.api_key))
    yield client
    client.close()


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop()
    yield loop
    loop.close()


@dataclass
class Bench:
    """What services need around them, and what the pipeline does with a call."""

    folder: Path
    budget: int = NANO
    jobs: Jobs = field(default_factory=Jobs)
    calls: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.workspace = Workspace(self.folder / "workspace")
        self.ledger = SQLLedger.sqlite(self.folder / "ledger.sqlite")
        self.ledger.open("run", self.budget)

    def meter(self, worst: int) -> Meter:
        self.calls += 1
        self.ledger.hold("run", f"call-{self.calls}", worst)
        return Meter(self.ledger, "run", f"call-{self.calls}")

    def call(self, service: Service, operation: Operation) -> Evidence:
        prepared = service.prepare(operation)
        meter = self.meter(prepared.quote.hold)
        try:
            return prepared.perform(meter)
        finally:
            if not meter.detached:
                meter.settle()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.jobs.close()
    assert bench.ledger.open_holds("run") == []
    assert bench.ledger.overdraft("run") == 0
    bench.ledger.close()
