"""A Tinker endpoint whose samples a test writes: what is tested is what is made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rsigym.services.renderer import Renderer
from rsigym.services.template_renderer import TemplateRenderer
from rsigym.services.tinker_client import TinkerClient
from rsigym.services.tinker_connection import ServedModel
from rsigym.services.tinker_sampler import Sampler

if TYPE_CHECKING:
    from tinker.types import SampleResponse
    from transformers import PreTrainedTokenizerBase

__all__ = ["Script", "ScriptedClient"]


@dataclass
class Script:
    """What is sampled next.

    Attributes:
        texts: A sample each, for every `n`.
        stops: Whether the samples end by themselves.
        cached: Tokens of the prompt that were read before.
        asked: The last request.
    """

    texts: list[str] = field(default_factory=lambda: ["Hello."])
    stops: bool = True
    cached: int = 0
    asked: dict[str, Any] = field(default_factory=dict[str, Any])


class _Sampler(Sampler):
    def __init__(self, renderer: TemplateRenderer, script: Script):
        self.base_model = "tiny"
        self._renderer = renderer
        self._script = script

    async def sample(self, prompt: Sequence[int], **asked: Any) -> "SampleResponse":
        import numpy as np
        from tinker.types import SampledSequence, SampleResponse

        self._script.asked = {"prompt": self._renderer.decode(prompt), **asked}
        sequences: list[SampledSequence] = []
        for number, text in enumerate(self._script.texts):
            tokens = self._renderer.encode(text)
            if self._script.stops:
                tokens.append(self._renderer.end_of_turn)
            likely: Any = [[(token, -0.5), (0, -1.5)] for token in tokens]
            sequences.append(
                SampledSequence(
                    "stop" if self._script.stops else "length",
                    f"sequence-{number}",
                    tokens_np=np.array(tokens, np.int32),
                    logprobs_np=np.full(len(tokens), -0.5, np.float32),
                    _topk_logprobs_list=likely if asked["top_logprobs"] else None,
                )
            )
        return SampleResponse(sequences, prompt_cache_hit_tokens=self._script.cached)


class ScriptedClient(TinkerClient):
    """Serves `tiny`, with a context of 2048 tokens, by a script and a chat template."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", template: str):
        tokenizer.chat_template = template
        self.script = Script()
        self._template = TemplateRenderer(tokenizer)

    def models(self) -> dict[str, ServedModel]:
        return {"tiny": ServedModel("tiny", 2048, trainable=True, sampleable=True)}

    def sampler(self, model: str) -> Sampler:
        return _Sampler(self._template, self.script)

    def renderer(self, base_model: str, name: str = "chat_template") -> Renderer:
        return self._template
