"""A sampled reply in OpenAI's form: the choice, its tool calls, and its tokens' logprobs."""

import uuid
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rsigym.operations.json_value import Json
from rsigym.services.renderer import Renderer
from rsigym.services.reply import Reply
from rsigym.services.tool_formats import Tool

if TYPE_CHECKING:
    from tinker.types import SampledSequence

__all__ = ["Reader"]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the replies to one request.

    Attributes:
        renderer: The one that rendered the prompt.
        tools: What the replies may call.
        begun: What the prompt has begun every reply with.
        stops: The request's own stop strings.
        logprobs: Whether the tokens' logprobs are told.
    """

    renderer: Renderer
    tools: Sequence[Tool]
    begun: str
    stops: Sequence[str]
    logprobs: bool

    def choice(self, index: int, sampled: "SampledSequence") -> dict[str, Json]:
        """One of a chat completion's `choices`."""
        text = self.renderer.decode(sampled.tokens)
        # The stop string itself was sampled and paid, but is no part of OpenAI's content.
        cuts = [at for stop in self.stops if (at := text.find(stop)) >= 0]
        text = text[: min(cuts)] if cuts else text
        reply = self.renderer.parse(self.begun + text, self.tools)
        stopped = bool(cuts) or sampled.stop_reason == "stop"
        return {
            "index": index,
            "message": _message(reply),
            "logprobs": self._logprobs(sampled, text) if self.logprobs else None,
            "finish_reason": ("tool_calls" if reply.calls else "stop") if stopped else "length",
        }

    def _logprobs(self, sampled: "SampledSequence", text: str) -> dict[str, Json]:
        """The logprob of each token of `text`, thoughts and calls included."""
        tokens, logprobs = sampled.tokens, sampled.logprobs or []
        decode = self.renderer.decode
        shown = bisect_right(
            range(len(tokens)), len(text), key=lambda end: len(decode(tokens[: end + 1]))
        )
        likely = sampled.topk_logprobs or [None] * shown
        entries: list[Json] = []
        for token, logprob, others in zip(tokens[:shown], logprobs, likely, strict=False):
            if decode([token]):
                top: list[Json] = [self._entry(*other) for other in others or ()]
                entries.append({**self._entry(token, logprob), "top_logprobs": top})
        return {"content": entries, "refusal": None}

    def _entry(self, token: int, logprob: float) -> dict[str, Json]:
        text = self.renderer.decode([token])
        # A part of a character has no text of its own.
        return {
            "token": text,
            "logprob": logprob,
            "bytes": None if "\ufffd" in text else [*text.encode()],
        }


def _message(reply: Reply) -> dict[str, Json]:
    """An assistant's message, which can be sent back as it is."""
    message: dict[str, Json] = {"role": "assistant", "content": reply.content}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["content"] = reply.content or None
        message["tool_calls"] = [
            {
                "id": f"call_{uuid.uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]
    return message
