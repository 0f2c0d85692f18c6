"""Reading what a model wrote: what it thought, what it said, and what it called.

Any text can be read, and nothing of it is lost: the parts of a text, put together, are the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rsigym.services.tool_formats import CLOSE, OPEN, Call, Tool, ToolFormat

__all__ = ["THINK", "UNTHINK", "Part", "Reply", "parts", "read"]

THINK, UNTHINK = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a reply, with the tags around it; `call` is what is called in it."""

    kind: Literal["reasoning", "content", "call"]
    text: str
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An assistant's message. Tags are gone, and so are the line breaks that stood next to them.

    Attributes:
        reasoning: What was thought; empty if nothing was, or the model does not think aloud.
    """

    content: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


def parts(
    text: str, *, thinks: bool, form: ToolFormat | None, tools: Sequence[Tool] = ()
) -> list[Part]:
    """The parts of `text` in order.

    Args:
        thinks: Whether the model can begin with a thought, `<think>…</think>`. What it calls in
            one is only thought of, unless the thought never ends: then it forgot to end it.
        form: How it writes calls; None if it has nothing to call.
        tools: What it can call.
    """
    start = len(text) - len(text.lstrip())
    if not thinks or not text.startswith(THINK, start):
        return [*_said(text, "content", form, tools)]
    end = text.find(UNTHINK, start)
    if end < 0:
        return [*_said(text, "reasoning", form, tools)]
    end += len(UNTHINK)
    return [Part("reasoning", text[:end]), *_said(text[end:], "content", form, tools)]


def read(all_parts: Sequence[Part]) -> Reply:
    """The message that the parts make."""
    if {part.kind for part in all_parts} <= {"content"}:
        return Reply("".join(part.text for part in all_parts))
    thought = [part.text for part in all_parts if part.kind == "reasoning"]
    said = [part.text.strip("\n") for part in all_parts if part.kind == "content"]
    reasoning = "".join(thought).strip()
    return Reply(
        "\n".join(text for text in said if text.strip()),
        reasoning.removeprefix(THINK).removesuffix(UNTHINK).strip("\n"),
        tuple(part.call for part in all_parts if part.call is not None),
    )


def _said(
    text: str, kind: Literal["reasoning", "content"], form: ToolFormat | None, tools: Sequence[Tool]
) -> Iterator[Part]:
    """The calls in `text`, and what stands around them."""
    told = at = 0
    while form is not None and (start := text.find(OPEN, at)) >= 0:
        body = start + len(OPEN)
        end = form.end(text, body)
        call = form.read(text[body:end], tools)
        at = end + len(CLOSE) if text.startswith(CLOSE, end) else end
        if call is not None:
            if told < start:
                yield Part(kind, text[told:start])
            yield Part("call", text[start:at], call)
            told = at
    if told < len(text):
        yield Part(kind, text[told:])
