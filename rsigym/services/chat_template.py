"""A model's chat template, and what looking at it tells: does it think, and how does it call?

Templates are programs, so they are asked by rendering a probe with them, not by their source.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rsigym.platform.errors import BadCall, ServiceFailure
from rsigym.services.chat_messages import CalledTool, ChatMessage
from rsigym.services.reply import THINK
from rsigym.services.tool_formats import Call, JsonCalls, TaggedCalls, Tool, ToolFormat

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["ChatTemplate"]

_HELLO: ChatMessage = {"role": "user", "content": "Hello"}
_HI: ChatMessage = {"role": "assistant", "content": "Hi"}
_NAME, _KEY, _VALUE = "rsigym_probe", "rsigym_key", "rsigym value"
_TOOL: Tool = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "A probe.",
        "parameters": {"type": "object", "properties": {_KEY: {"type": "string"}}},
    },
}
_FORMS: tuple[ToolFormat, ...] = (JsonCalls(), TaggedCalls())


class ChatTemplate:
    """The chat template of `tokenizer`. Safe from any thread.

    Raises:
        ServiceFailure: There is none.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase"):
        self._tokenizer = tokenizer
        if not tokenizer.chat_template:
            raise ServiceFailure(
                f"the tokenizer of {tokenizer.name_or_path} has no chat template: "
                "use an instruct model",
                side="model",
            )

    def render(
        self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = (), *, ready: bool = False
    ) -> str:
        """The conversation as text; `ready` for the assistant's reply to it.

        Raises:
            BadCall: The template does not take these messages or tools.
        """
        self._require_taken(messages, tools)
        return self._apply([self._message(message) for message in messages], tools, ready=ready)

    def behind_reply(self) -> str:
        """What is written behind a reply."""
        text = self.render([_HELLO, _HI])
        return text[text.rindex(_HI["content"]) + len(_HI["content"]) :]

    @cached_property
    def begun(self) -> str:
        """What every reply begins with because the template writes it: a thought, or nothing."""
        return THINK if self._apply([_plain(_HELLO)], ready=True).rstrip().endswith(THINK) else ""

    @cached_property
    def thinks(self) -> bool:
        """Whether the model's replies can begin with a thought of their own."""
        thinking: ChatMessage = {**_HI, "reasoning": _VALUE}
        return bool(self.begun) or _VALUE in self._apply([_plain(_HELLO), _plain(thinking)])

    def tool_format(self) -> ToolFormat:
        """How the model writes calls.

        Raises:
            BadCall: The template has no tools, or has them in a form that is not known here.
        """
        if not self._shows_tools:
            raise BadCall(
                "the model's chat template has no tools: leave tools out, or use another model",
                param="tools",
            )
        if self._form is None:
            raise BadCall(
                "the model's chat template writes calls in a form that is not known here: leave "
                "tools out, or give the renderer of tinker-cookbook that is made for the model",
                param="tools",
            )
        return self._form

    @cached_property
    def _shows_tools(self) -> bool:
        return _NAME in self._apply([_plain(_HELLO)], [_TOOL])

    @cached_property
    def _form(self) -> ToolFormat | None:
        text = self._probe({_KEY: _VALUE})
        marks = (form.begin(_NAME) for form in _FORMS)
        return next((form for form, mark in zip(_FORMS, marks, strict=True) if mark in text), None)

    @cached_property
    def _takes_text(self) -> bool:
        """Whether arguments can be handed over as the text that the model wrote."""
        written = f'{{"{_KEY}":   "{_VALUE}"}}'
        return written in self._probe(written)

    def _probe(self, arguments: str | dict[str, str]) -> str:
        """A conversation with a call; empty if the template does not take it."""
        function = {"name": _NAME, "arguments": arguments}
        call = {"id": "call_1", "type": "function", "function": function}
        calling = {"role": "assistant", "content": "", "tool_calls": [call]}
        try:
            return self._apply([_plain(_HELLO), calling], [_TOOL])
        except BadCall:
            return ""

    def _require_taken(self, messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> None:
        if tools or any("calls" in m or "answers" in m for m in messages):
            self.tool_format()
        if not self.thinks and any("reasoning" in message for message in messages):
            raise BadCall(
                "the model's chat template has no place for reasoning_content: leave it out",
                param="messages",
            )

    def _message(self, message: ChatMessage) -> dict[str, Any]:
        """A message as templates take it."""
        plain = _plain(message)
        if "answers" in message:
            plain |= {"tool_call_id": message["answers"]["id"], "name": message["answers"]["name"]}
        calls = [self._call(call) for call in message.get("calls", ())]
        written = [call for call in calls if isinstance(call, str)]
        plain["content"] = "\n".join(filter(None, [plain["content"], *written]))
        if len(written) < len(calls):
            plain["tool_calls"] = [call for call in calls if not isinstance(call, str)]
        return plain

    def _call(self, call: CalledTool) -> dict[str, Any] | str:
        """A call as templates take it, or as text if it is one that they would not write back."""
        arguments: object = call["arguments"]
        if not self._takes_text:
            try:
                arguments = json.loads(call["arguments"])
            except (ValueError, RecursionError):
                arguments = None
            if not isinstance(arguments, dict):
                return self.tool_format().write(Call(call["name"], call["arguments"]))
        function = {"name": call["name"], "arguments": arguments}
        return {"id": call["id"], "type": "function", "function": function}

    def _apply(
        self, messages: list[dict[str, Any]], tools: Sequence[Tool] = (), *, ready: bool = False
    ) -> str:
        from jinja2 import TemplateError

        try:
            text = self._tokenizer.apply_chat_template(
                messages,
                tools=list(tools) or None,  # pyright: ignore[reportArgumentType]
                tokenize=False,
                add_generation_prompt=ready,
            )
        except (TemplateError, IndexError, ValueError, TypeError) as error:
            raise BadCall(
                f"the model's chat template does not take these messages: {error}"
            ) from error
        assert isinstance(text, str)
        return text


def _plain(message: ChatMessage) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message["role"], "content": message["content"]}
    if "reasoning" in message:
        plain["reasoning_content"] = message["reasoning"]
    return plain
