"""The base models this server offers, by name; each gets an engine when it is first used."""

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rsigym.local.tinker.refusal import Refusal
from rsigym.local.tinker.specs import EngineError
from rsigym.platform.errors import OperatorError

if TYPE_CHECKING:
    from rsigym.local.tinker.engine import Engine

__all__ = ["Dtype", "Engines", "ModelFacts", "result_of"]

type Dtype = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class ModelFacts:
    """What a model folder says about itself, read without loading the model.

    Attributes:
        folder: The Hugging Face folder; the SDK loads the tokenizer from it.
        architecture: The class name of the model.
        context: The most tokens a sequence can have.
        end_ids: The tokens that end a text.
    """

    folder: Path
    architecture: str
    context: int
    end_ids: tuple[int, ...]

    @classmethod
    def read(cls, folder: Path) -> "ModelFacts":
        """Raises `OperatorError` where the folder does not say what must be known."""
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        generation = folder / "generation_config.json"
        if generation.exists():
            config |= json.loads(generation.read_text(encoding="utf-8"))
        context = config.get("max_position_embeddings")
        if not isinstance(context, int):
            raise OperatorError(
                f"{folder}/config.json has no max_position_embeddings: is it a language model?"
            )
        ends = config.get("eos_token_id")
        return cls(
            folder=folder,
            architecture=config.get("architectures", ["unknown"])[0],
            context=context,
            end_ids=tuple(ends) if isinstance(ends, list) else () if ends is None else (ends,),
        )


class Engines:
    """Engines by model name.

    Args:
        models: Model folders by the names they are offered under.
        dtype: As `Engine` takes it.
        threads: As `Engine` takes it.
    """

    def __init__(self, models: Mapping[str, Path], *, dtype: Dtype, threads: int | None) -> None:
        self.models = {name: ModelFacts.read(folder) for name, folder in models.items()}
        self._dtype: Dtype = dtype
        self._threads = threads
        self._loading: dict[str, asyncio.Task[Engine]] = {}

    def facts(self, name: str) -> ModelFacts:
        """Raises `Refusal` for a model that is not offered."""
        if name not in self.models:
            offered = ", ".join(self.models)
            raise Refusal(400, f"no base model {name!r} here: this server offers {offered}")
        return self.models[name]

    async def get(self, name: str) -> "Engine":
        """The engine of `name`, loaded now if this is its first use."""
        folder = self.facts(name).folder
        if name not in self._loading or _has_failed(self._loading[name]):
            self._loading[name] = asyncio.create_task(asyncio.to_thread(self._load, name, folder))
        # Shielded: the request that came first may be cancelled while others wait as well.
        return await asyncio.shield(self._loading[name])

    def _load(self, name: str, folder: Path) -> "Engine":
        # Imported here, in a thread: it brings torch, which takes seconds.
        from rsigym.local.tinker.engine import Engine

        try:
            return Engine(name, folder, dtype=self._dtype, threads=self._threads)
        except EngineError as error:
            raise Refusal(400, str(error)) from error


async def result_of[T](future: Future[T]) -> T:
    """Await what an engine promised; its complaint about a request becomes a `Refusal`."""
    try:
        return await asyncio.wrap_future(future)
    except EngineError as error:
        raise Refusal(400, str(error)) from error


def _has_failed[T](task: asyncio.Task[T]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
