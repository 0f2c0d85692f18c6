"""A Tinker endpoint, hosted or on this machine, through the `tinker` SDK alone.

Nothing starts before it is needed: importing the SDK takes seconds, and the endpoint may be a
server of this machine that is started by asking for its address.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rsigym.operations.training import LoraConfig
from rsigym.services.cookbook_renderer import CookbookRenderer
from rsigym.services.renderer import Renderer
from rsigym.services.template_renderer import TemplateRenderer
from rsigym.services.tinker_connection import (
    CheckpointInfo,
    Connection,
    ServedModel,
    import_sdk,
    session,
)
from rsigym.services.tinker_link import Address, Link
from rsigym.services.tinker_sampler import Sampler
from rsigym.services.tinker_trainer import Trainer

__all__ = ["TinkerClient"]


class TinkerClient:
    """A Tinker endpoint. Safe from any thread.

    Args:
        endpoint: Where the endpoint is, as (URL, API key). It is asked often: it starts a local
            server when that is first needed and again after a crash, and answers another address
            than before exactly when what the old one knew, except for checkpoints, is gone.
    """

    def __init__(self, endpoint: Callable[[], Address]):
        self._endpoint = endpoint
        self._lock = threading.RLock()
        self._connected: Connection | None = None
        self._renderers: dict[tuple[str, str], Renderer] = {}

    def models(self) -> Mapping[str, ServedModel]:
        """The base models that are served, by name."""
        return self._connection().models

    def checkpoint(self, path: str) -> CheckpointInfo:
        """What is known about a checkpoint of either kind.

        Raises:
            BadCall: There is none.
        """
        return self._connection().checkpoint(path)

    def sampler(self, model: str) -> Sampler:
        """Something to sample from: a base model's name, or a sampler checkpoint's path.

        Raises:
            BadCall: It is not served, or not a sampler checkpoint.
        """
        with self._lock:
            return self._connection().sampler(model)

    def renderer(self, base_model: str, name: str = "chat_template") -> Renderer:
        """The renderer of a base model, with the tokenizer that the endpoint names for it.

        Args:
            name: "chat_template", the model's own, or one of tinker-cookbook's renderers.

        Raises:
            BadCall: There is no renderer of that name here.
        """
        key = base_model, name
        with self._lock:
            if key not in self._renderers:
                tokenizer = self._connection().tokenizer(base_model)
                self._renderers[key] = (
                    TemplateRenderer(tokenizer)
                    if name == "chat_template"
                    else CookbookRenderer(tokenizer, name)
                )
            return self._renderers[key]

    @contextmanager
    def trainer(
        self, base_model: str, lora: LoraConfig, init_from: str | None
    ) -> Iterator[Trainer]:
        """A new adapter to train, or one that starts from a state checkpoint's weights.

        It has a session of its own, so that the endpoint frees its memory at the end of the block.
        """
        link = self._connection().link
        with session(link) as service:
            if init_from is None:
                client = link.call(
                    lambda: service.create_lora_training_client(
                        base_model, **lora.model_dump()
                    ).result()
                )
            else:
                client = link.call(
                    lambda: service.create_training_client_from_state(init_from).result()
                )
            yield Trainer(client, link)

    def close(self) -> None:
        """End the session with the endpoint; twice is fine."""
        with self._lock:
            if self._connected is not None:
                self._connected.close()
                self._connected = None

    def _connection(self) -> Connection:
        with self._lock:
            if self._connected is None or self._connected.link.lost:
                import_sdk()
                if self._connected is not None:
                    self._connected.abandon()
                self._connected = Connection(Link(self._endpoint(), self._endpoint))
            return self._connected
