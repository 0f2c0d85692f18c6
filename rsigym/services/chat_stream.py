"""A chat completion as OpenAI streams one: server-sent events, each with a `chat.completion.chunk`.

A stream is the finished completion in pieces: it begins when all of it is there, and has been
charged by then, whether or not the client reads to its end. Tinker does not stream tokens; and of a
frontier model's stream that breaks off nobody knows the bill.
"""

from collections.abc import Iterator
from typing import Any

from rsigym.operations.json_value import Json
from rsigym.platform.evidence import text_of

__all__ = ["events"]


def events(answer: dict[str, Json], *, include_usage: bool) -> Iterator[str]:
    """The events of `answer`, the last one `[DONE]`.

    Args:
        include_usage: With an event for the usage before that one.
    """
    told: dict[str, Any] = dict(answer)
    chunk = {name: told.pop(name) for name in ("id", "created", "model")}
    chunk["object"] = "chat.completion.chunk"
    if include_usage:
        chunk["usage"] = None
    for choice in told.pop("choices"):
        for piece in _pieces(choice):
            yield _event({**chunk, "choices": [piece]})
    if include_usage:
        yield _event({**told, **chunk, "choices": [], "usage": told["usage"]})
    yield "data: [DONE]\n\n"


def _pieces(choice: dict[str, Any]) -> Iterator[dict[str, Json]]:
    """A choice's message, one field after the other, and how it ended."""
    message: dict[str, Any] = choice["message"]
    logprobs = choice["logprobs"]
    yield _piece(choice, {"role": "assistant", "content": ""})
    if "reasoning_content" in message:
        yield _piece(choice, {"reasoning_content": message["reasoning_content"]})
    if message["content"]:
        yield _piece(choice, {"content": message["content"]})
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        begun = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield _piece(choice, {"tool_calls": [begun]})
        written = {"index": index, "function": {"arguments": function["arguments"]}}
        yield _piece(choice, {"tool_calls": [written]})
    yield {**_piece(choice, {}), "logprobs": logprobs, "finish_reason": choice["finish_reason"]}


def _piece(choice: dict[str, Any], delta: dict[str, Any]) -> dict[str, Json]:
    return {"index": choice["index"], "delta": delta, "logprobs": None, "finish_reason": None}


def _event(chunk: dict[str, Json]) -> str:
    return f"data: {text_of(chunk)}\n\n"
