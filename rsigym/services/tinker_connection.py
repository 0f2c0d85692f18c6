"""What a Tinker endpoint at one address serves, and the sessions with it."""

import importlib
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rsigym.platform.errors import BadCall
from rsigym.services.tinker_link import Link
from rsigym.services.tinker_sampler import Sampler

if TYPE_CHECKING:
    import tinker
    from transformers import PreTrainedTokenizerBase

__all__ = ["CheckpointInfo", "Connection", "ServedModel", "import_sdk", "session"]

_FAREWELL_S = 5.0


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A base model that the endpoint serves.

    Attributes:
        name: Its name.
        context: The most tokens that prompt and completion can have together.
        trainable: Whether it can be trained.
        sampleable: Whether it can be sampled from.
    """

    name: str
    context: int
    trainable: bool
    sampleable: bool


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """What the endpoint knows about a checkpoint; `rank` is its adapter's."""

    base_model: str
    rank: int | None


class Connection:
    """What is known about the endpoint at one address."""

    def __init__(self, link: Link):
        import tinker

        url, key = link.address
        self.link = link
        self._service = tinker.ServiceClient(base_url=url, api_key=key)
        self._samplers: dict[str, Sampler] = {}

    @cached_property
    def _rest(self) -> "tinker.RestClient":
        import tinker

        url, key = self.link.address
        return self.link.call(lambda: tinker.RestClient(base_url=url, api_key=key))

    @cached_property
    def models(self) -> Mapping[str, ServedModel]:
        served = self.link.wait(self._rest.get_server_capabilities()).supported_models
        return {
            model.model_name: ServedModel(
                model.model_name,
                model.max_context_length,
                trainable=model.trainable is not False,
                sampleable=model.sampleable is not False,
            )
            for model in served
            if model.model_name is not None and model.max_context_length is not None
        }

    def checkpoint(self, path: str) -> CheckpointInfo:
        info = self.link.wait(self._rest.get_weights_info_by_tinker_path(path))
        return CheckpointInfo(info.base_model, info.lora_rank)

    def sampler(self, model: str) -> Sampler:
        if model not in self._samplers:
            path, base = (model, None) if model.startswith("tinker://") else (None, model)
            served = [name for name, each in self.models.items() if each.sampleable]
            if base is not None and base not in served:
                raise BadCall(
                    f"model {model!r} cannot be sampled from; these can: {', '.join(served)}, and "
                    "the sampler checkpoints of training runs"
                )
            client = self.link.call(
                lambda: self._service.create_sampling_client(path, base).result()
            )
            self._samplers[model] = Sampler(client, self.link)
        return self._samplers[model]

    def tokenizer(self, base_model: str) -> "PreTrainedTokenizerBase":
        """The server names a model's tokenizer only to those who train it; the name of the model
        has to do for one that cannot be trained."""
        served = self.models.get(base_model)
        if served is None or not served.trainable:
            return self.sampler(base_model).tokenizer()
        with session(self.link) as service:
            return self.link.call(
                lambda: (
                    service.create_lora_training_client(base_model, rank=1).result().get_tokenizer()
                )
            )

    def close(self) -> None:
        _finish(self._service)

    def abandon(self) -> None:
        """Let go of a server that is gone, without waiting for it."""
        _finish(self._service, patience_s=0)


@contextmanager
def session(link: Link) -> "Iterator[tinker.ServiceClient]":
    """A session of its own, ended with the block, and with it all that it held at the endpoint."""
    import tinker

    url, key = link.address
    service = tinker.ServiceClient(base_url=url, api_key=key)
    try:
        yield service
    finally:
        _finish(service)


def _finish(service: "tinker.ServiceClient", *, patience_s: float = _FAREWELL_S) -> None:
    """Close a session; the endpoint ends it by itself when it cannot be told.

    In a thread, because the SDK may be connecting to a server that is gone, for minutes. Not by
    `Link.call`, which would start another local server to say goodbye to.
    """

    def close() -> None:
        with suppress(Exception):
            service.close("success").result()

    farewell = threading.Thread(target=close, name="rsigym-tinker-close", daemon=True)
    farewell.start()
    farewell.join(patience_s)


def import_sdk() -> None:
    """Import the SDK; what it logs on its own is not for the terminal of a command."""
    logger = logging.getLogger("tinker")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    importlib.import_module("tinker")
