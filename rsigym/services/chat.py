"""One chat request, ready to be sampled: its prompt, its price, and its answer in OpenAI's form."""

import asyncio
import time
import uuid
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rsigym.operations.inference import InferenceChat
from rsigym.operations.json_value import Json
from rsigym.platform.errors import BadCall
from rsigym.platform.ledger import Item, total
from rsigym.platform.meter import Meter
from rsigym.platform.prices import TokenPrice
from rsigym.services.chat_messages import ChatMessage
from rsigym.services.renderer import Renderer
from rsigym.services.tinker_sampler import Sampler

if TYPE_CHECKING:
    from tinker.types import SampledSequence

__all__ = ["Ask"]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that can be answered.

    Attributes:
        request: What was asked.
        sampler: Who is asked.
        renderer: Of the base model.
        prompt: The rendered messages.
        price: Of the base model.
    """

    request: InferenceChat
    sampler: Sampler
    renderer: Renderer
    prompt: Sequence[int]
    price: TokenPrice

    @classmethod
    def make(
        cls,
        request: InferenceChat,
        sampler: Sampler,
        renderer: Renderer,
        price: TokenPrice,
        context: int,
    ) -> "Ask":
        """Render the prompt and check that it fits.

        Raises:
            BadCall: With `code` "context_length_exceeded" where prompt and completion together
                are longer than the model's `context`.
        """
        messages: list[ChatMessage] = [
            {"role": message.role, "content": message.content} for message in request.messages
        ]
        prompt = renderer.render_prompt(messages)
        wanted = len(prompt) + request.max_tokens
        if wanted > context:
            raise BadCall(
                f"This model's maximum context length is {context} tokens. However, you requested "
                f"{wanted} tokens ({len(prompt)} in the messages, {request.max_tokens} in the "
                "completion): shorten the messages or the completion",
                code="context_length_exceeded",
                param="messages",
            )
        return cls(request, sampler, renderer, prompt, price)

    @property
    def items(self) -> tuple[Item, ...]:
        """The bill if every completion is as long as it may be."""
        return self._bill(self.request.n * self.request.max_tokens)

    @property
    def worst(self) -> int:
        """Nano-USD of `items`."""
        return total(self.items)

    async def answer(self, meter: Meter) -> dict[str, Json]:
        """Sample, charge what was used, and answer OpenAI's chat completion.

        A request that is given up (the caller is cancelled) is charged at its worst: the endpoint
        may have done all of it, and does not tell.

        Raises:
            Failure: Of the endpoint, which bills no failures; nothing was charged.
        """
        request = self.request
        try:
            sampled = await self._sample()
        except asyncio.CancelledError:
            for item in self.items:
                meter.charge(item)
            raise
        completion = sum(len(one.tokens) for one in sampled)
        for item in self._bill(completion):
            meter.charge(item)
        choices: list[Json] = [self._choice(index, one) for index, one in enumerate(sampled)]
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.model,
            "choices": choices,
            "usage": {
                "prompt_tokens": len(self.prompt),
                "completion_tokens": completion,
                "total_tokens": len(self.prompt) + completion,
            },
        }

    async def _sample(self) -> "Sequence[SampledSequence]":
        request = self.request
        return await self.sampler.sample(
            self.prompt,
            n=request.n,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            stop=[*self._stops, self.renderer.stop_text] if self._stops else self.renderer.stop,
        )

    @property
    def _stops(self) -> list[str]:
        stop = self.request.stop
        return [stop] if isinstance(stop, str) else stop or []

    def _bill(self, completion: int) -> tuple[Item, ...]:
        """The prompt is read once, however many completions it gets."""
        return (
            Item("inference", "prefill", len(self.prompt), "token", self.price.prefill),
            Item("inference", "sample", completion, "token", self.price.sample),
        )

    def _choice(self, index: int, sampled: "SampledSequence") -> dict[str, Json]:
        text = self.renderer.parse(sampled.tokens)
        # The stop string itself was sampled and paid, but is no part of OpenAI's content.
        cuts = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        content = text[: min(cuts)] if cuts else text
        stopped = bool(cuts) or sampled.stop_reason == "stop"
        return {
            "index": index,
            "message": {"role": "assistant", "content": content},
            "logprobs": self._logprobs(sampled, content) if self.request.logprobs else None,
            "finish_reason": "stop" if stopped else "length",
        }

    def _logprobs(self, sampled: "SampledSequence", content: str) -> dict[str, Json]:
        """The logprob of each token that shows in `content`."""
        tokens, logprobs = sampled.tokens, sampled.logprobs or []
        parse = self.renderer.parse
        shown = bisect_right(
            range(len(tokens)), len(content), key=lambda end: len(parse(tokens[: end + 1]))
        )
        entries: list[Json] = []
        for token, logprob in zip(tokens[:shown], logprobs, strict=False):
            text = parse([token])
            if text:
                entries.append(
                    {
                        "token": text,
                        "logprob": logprob,
                        "bytes": [*text.encode()],
                        "top_logprobs": [],
                    }
                )
        return {"content": entries, "refusal": None}
