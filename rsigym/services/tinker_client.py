"""The connection to a Tinker endpoint, hosted or on this machine, through the `tinker` SDK alone.

Nothing starts before it is needed: importing the SDK takes seconds, and the endpoint may be a
server of this machine that is started by asking for its address.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rsigym.operations.training import AdamParams, LoraConfig
from rsigym.platform.errors import BadCall, Failure
from rsigym.services.renderer import Rendered, Renderer
from rsigym.services.tinker_link import Address, Link

if TYPE_CHECKING:
    import tinker
    from tinker.types import SampledSequence
    from transformers import PreTrainedTokenizerBase

__all__ = ["CheckpointInfo", "Sampler", "ServedModel", "TinkerClient", "Trainer"]


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
        self._connected: _Connection | None = None
        self._renderers: dict[str, Renderer] = {}

    def warm(self) -> None:
        """Begin to import the SDK in the background."""
        threading.Thread(target=_quiet_import, name="rsigym-warm", daemon=True).start()

    def models(self) -> Mapping[str, ServedModel]:
        """The base models that are served, by name."""
        return self._connection().models

    def checkpoint(self, path: str) -> CheckpointInfo:
        """What is known about a checkpoint of either kind.

        Raises:
            BadCall: There is none.
        """
        return self._connection().checkpoint(path)

    def sampler(self, model: str) -> "Sampler":
        """Something to sample from: a base model's name, or a sampler checkpoint's path.

        Raises:
            BadCall: It is not served, or not a sampler checkpoint.
        """
        with self._lock:
            return self._connection().sampler(model)

    def renderer(self, base_model: str) -> Renderer:
        """The renderer of a base model, with the tokenizer that the endpoint names for it."""
        with self._lock:
            if base_model not in self._renderers:
                self._renderers[base_model] = Renderer(self._connection().tokenizer(base_model))
            return self._renderers[base_model]

    @contextmanager
    def trainer(
        self, base_model: str, lora: LoraConfig, init_from: str | None
    ) -> "Iterator[Trainer]":
        """A new adapter to train, or one that starts from a state checkpoint's weights.

        It has a session of its own, so that the endpoint frees its memory at the end of the block.
        """
        link = self._connection().link
        with _session(link) as service:
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

    def _connection(self) -> "_Connection":
        with self._lock:
            if self._connected is None or self._connected.link.lost:
                _quiet_import()
                if self._connected is not None:
                    self._connected.abandon()
                self._connected = _Connection(Link(self._endpoint(), self._endpoint))
            return self._connected


class _Connection:
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

    def sampler(self, model: str) -> "Sampler":
        if model not in self._samplers:
            path, base = (model, None) if model.startswith("tinker://") else (None, model)
            if base is not None and base not in self.models:
                raise BadCall(
                    f"model {model!r} is not served; served: {', '.join(self.models)}, and the "
                    "sampler checkpoints of training runs"
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
        with _session(self.link) as service:
            return self.link.call(
                lambda: (
                    service.create_lora_training_client(base_model, rank=1).result().get_tokenizer()
                )
            )

    def close(self) -> None:
        _finish(self._service, self.link)

    def abandon(self) -> None:
        """Let go of a server that is gone, without waiting for it."""
        self._service.close("errored")


class Sampler:
    """A base model or a sampler checkpoint, ready to sample from.

    Attributes:
        base_model: The name of the (adapted) base model.
    """

    def __init__(self, client: "tinker.SamplingClient", link: Link):
        self._client = client
        self._link = link
        self.base_model = client.get_base_model()

    async def sample(
        self,
        prompt: Sequence[int],
        *,
        n: int,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int | None,
        stop: list[int] | list[str],
    ) -> "Sequence[SampledSequence]":
        """`n` completions of `prompt`, with the token that ended them and each token's logprob."""
        from tinker.types import ModelInput, SamplingParams

        response = await self._link.wait_async(
            self._client.sample(
                ModelInput.from_ints(list(prompt)),
                num_samples=n,
                sampling_params=SamplingParams(
                    max_tokens=max_tokens,
                    temperature=temperature,
                    top_p=top_p,
                    seed=seed,
                    stop=stop,
                ),
            )
        )
        return response.sequences

    def tokenizer(self) -> "PreTrainedTokenizerBase":
        return self._client.get_tokenizer()


class Trainer:
    """An adapter in training. For one thread."""

    def __init__(self, client: "tinker.TrainingClient", link: Link):
        self._client = client
        self._link = link

    def step(
        self, batch: Sequence[Rendered], adam: AdamParams, learning_rate: float
    ) -> list[np.ndarray]:
        """One optimizer step on `batch`; the sum of the trained tokens' cross-entropy is the loss.

        Answers the logprob of each token but the first under the weights before the step:
        float32 [T - 1] for each of the batch.
        """
        from tinker.types import AdamParams as Adam

        parameters = adam.model_dump() | {"learning_rate": learning_rate}
        # Both are on their way before either is waited for: hosted steps share one clock cycle.
        passed = self._client.forward_backward([_datum(one) for one in batch], "cross_entropy")
        stepped = self._client.optim_step(Adam(**parameters))
        outputs = self._link.wait(passed).loss_fn_outputs
        self._link.wait(stepped)
        return [output["logprobs"].to_numpy() for output in outputs]

    def save(self, name: str) -> tuple[str, str]:
        """The paths of a sampler checkpoint and a state checkpoint of the weights as they are."""
        sampler = self._client.save_weights_for_sampler(name)
        state = self._client.save_state(name)
        return self._link.wait(sampler).path, self._link.wait(state).path


def _datum(rendered: Rendered) -> "tinker.Datum":
    from tinker.types import Datum, ModelInput, TensorData

    targets, weights = rendered.tokens[1:].astype(np.int64), rendered.weights[1:]
    return Datum(
        ModelInput.from_ints(rendered.tokens[:-1].tolist()),
        {
            "target_tokens": TensorData.from_numpy(targets),
            "weights": TensorData.from_numpy(weights),
        },
    )


@contextmanager
def _session(link: Link) -> "Iterator[tinker.ServiceClient]":
    import tinker

    url, key = link.address
    service = tinker.ServiceClient(base_url=url, api_key=key)
    try:
        yield service
    finally:
        _finish(service, link)


def _finish(service: "tinker.ServiceClient", link: Link) -> None:
    """Close a session. The endpoint ends it by itself when it cannot be told."""
    with suppress(Failure):
        link.wait(service.close("success"))


def _quiet_import() -> None:
    """Import the SDK; what it logs on its own is not for the terminal of a command."""
    logger = logging.getLogger("tinker")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    importlib.import_module("tinker")
