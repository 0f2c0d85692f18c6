"""Serving and training see the same tokens, whichever renderer writes them, tools included."""

import json
from pathlib import Path
from typing import Any

import pytest

from rsigym.platform.errors import BadCall
from rsigym.services.chat_messages import CalledTool, ChatMessage
from rsigym.services.cookbook_renderer import CookbookRenderer
from rsigym.services.renderer import Renderer, check_parity
from rsigym.services.reply import Reply
from rsigym.services.template_renderer import TemplateRenderer
from rsigym.services.tool_formats import Call, Tool
from tests.chat_templates import HERMES, TAGGED, THINKS, THINKS_AT_ONCE, UNKNOWN_CALLS
from tests.tiny_model import CHAT_TEMPLATE

TOOL: Tool = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
CALLED: CalledTool = {"id": "call_1", "name": "add", "arguments": '{"a":  7}'}
ASKED: ChatMessage = {"role": "user", "content": "What is 7 plus 5?"}
CALLING: ChatMessage = {"role": "assistant", "content": "Let me add.", "calls": [CALLED]}
ADDED: ChatMessage = {"role": "tool", "content": "12", "answers": CALLED}
TOLD: ChatMessage = {"role": "assistant", "content": "12"}
THOUGHT: ChatMessage = {"role": "assistant", "content": "12", "reasoning": "Seven, five."}

TEMPLATES = {
    "plain": CHAT_TEMPLATE,
    "hermes": HERMES,
    "tagged": TAGGED,
    "thinks": THINKS,
    "thinks_at_once": THINKS_AT_ONCE,
}
COOKBOOK = [
    "qwen3",
    "qwen3_instruct",
    "qwen3_5",
    "qwen3_5_preserve_thinking",
    "qwen3_8_xhigh_reasoning",
]


def _renderer(folder: Path, kind: str) -> Renderer:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    if kind in TEMPLATES:
        tokenizer.chat_template = TEMPLATES[kind]
        return TemplateRenderer(tokenizer)
    pytest.importorskip("tinker_cookbook", reason="tinker-cookbook is not installed")
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    return CookbookRenderer(tokenizer, kind)


def _conversation(kind: str) -> tuple[list[ChatMessage], list[Tool]]:
    if kind == "plain":
        return [ASKED, TOLD], []
    return [
        ASKED,
        CALLING,
        ADDED,
        TOLD if kind in {"hermes", "tagged", "qwen3_instruct"} else THOUGHT,
    ], [TOOL]


@pytest.mark.parametrize("kind", [*TEMPLATES, *COOKBOOK])
def test_what_is_trained_is_what_is_served(tiny_folder: Path, kind: str) -> None:
    renderer = _renderer(tiny_folder, kind)
    messages, tools = _conversation(kind)
    check_parity(renderer, messages, "last_assistant_message", tools)
    rendered = renderer.render_training(messages, "last_assistant_message", tools)
    prompt = renderer.render_prompt(messages[:-1], tools)
    assert rendered.tokens[: len(prompt)].tolist() == prompt
    reply = renderer.parse(renderer.decode(rendered.tokens[len(prompt) :].tolist()), tools)
    assert (reply.content, reply.reasoning) == (
        messages[-1]["content"],
        messages[-1].get("reasoning", ""),
    )


@pytest.mark.parametrize("kind", [*list(TEMPLATES)[1:], *COOKBOOK])
def test_a_call_that_is_trained_is_read_back(tiny_folder: Path, kind: str) -> None:
    renderer = _renderer(tiny_folder, kind)
    rendered = renderer.render_training([ASKED, CALLING], "all_assistant_messages", [TOOL])
    start = len(renderer.render_prompt([ASKED], [TOOL]))
    reply = renderer.parse(renderer.decode(rendered.tokens[start:].tolist()), [TOOL])
    assert reply.content == "Let me add."
    (call,) = reply.calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 7})
    assert "add" in renderer.decode(renderer.render_prompt([ASKED], [TOOL]))


@pytest.mark.parametrize("kind", ["hermes", "tagged", "thinks"])
@pytest.mark.parametrize("arguments", ['{"a": 7,}', "[7]", "null", "7"])
def test_arguments_that_are_not_an_object_go_back_as_they_were_written(
    tiny_folder: Path, kind: str, arguments: str
) -> None:
    renderer = _renderer(tiny_folder, kind)
    calling: ChatMessage = {**CALLING, "calls": [{**CALLED, "arguments": arguments}]}
    shown = renderer.decode(renderer.render_prompt([ASKED, calling, ADDED], [TOOL]))
    reply = renderer.parse(shown[shown.index("<tool_call>") :], [TOOL])
    assert reply.calls == (Call("add", arguments),)


def test_a_thought_that_the_prompt_begins_is_read_and_can_be_skipped(tiny_folder: Path) -> None:
    renderer = _renderer(tiny_folder, "thinks_at_once")
    assert renderer.decode(renderer.render_prompt([ASKED])).endswith("<think>\n")
    assert renderer.parse("Hm.\n</think>\n\n12") == Reply("12", "Hm.")
    assert renderer.parse("Hm.") == Reply("", "Hm.")
    begun = renderer.begin_call("add")
    assert renderer.parse(begun + '{"a": 1}}', [TOOL]) == Reply("", "", (Call("add", '{"a": 1}'),))


def test_tags_are_text_where_nothing_can_be_called_and_the_model_does_not_think(
    tiny_folder: Path,
) -> None:
    text = '<think>Hm</think><tool_call>{"name": "add"}</tool_call>'
    assert _renderer(tiny_folder, "hermes").parse(text) == Reply(text)


@pytest.mark.parametrize(
    ("template", "says"), [(CHAT_TEMPLATE, "has no tools"), (UNKNOWN_CALLS, "not known here")]
)
def test_a_template_that_cannot_call_is_told_apart(
    tiny_folder: Path, template: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TEMPLATES, "other", template)
    renderer = _renderer(tiny_folder, "other")
    for refused in (
        lambda: renderer.render_prompt([ASKED], [TOOL]),
        lambda: renderer.render_prompt([ASKED, CALLING, ADDED]),
        lambda: renderer.begin_call(None),
    ):
        with pytest.raises(BadCall, match=says) as caught:
            refused()
        assert caught.value.details["param"] == "tools"


def test_thoughts_are_refused_where_the_template_has_no_place_for_them(tiny_folder: Path) -> None:
    with pytest.raises(BadCall, match="reasoning_content"):
        _renderer(tiny_folder, "hermes").render_prompt([ASKED, THOUGHT, ASKED])


def test_thoughts_of_earlier_turns_are_kept_on_request(tiny_folder: Path) -> None:
    turns = [ASKED, THOUGHT, ASKED, THOUGHT]
    keeps = _renderer(tiny_folder, "qwen3_5_preserve_thinking")
    check_parity(keeps, turns, "all_assistant_messages")
    assert "Seven, five." in keeps.decode(keeps.render_prompt(turns[:3]))
    drops = _renderer(tiny_folder, "qwen3_5")
    assert "Seven, five." not in drops.decode(drops.render_prompt(turns[:3]))
    with pytest.raises(BadCall, match="last_assistant_message"):
        drops.render_training(turns, "all_assistant_messages")


@pytest.mark.parametrize("kind", COOKBOOK)
@pytest.mark.parametrize(
    "text", ["", "<think>", "</think></think>", "<|im_end|>x<|im_end|>", "<tool_call>{", "\ufffd"]
)
def test_the_cookbook_s_renderers_read_any_text(tiny_folder: Path, kind: str, text: str) -> None:
    for tools in ([], [TOOL]):
        assert isinstance(_renderer(tiny_folder, kind).parse(text, tools), Reply)


def test_malformed_arguments_are_a_call_to_the_cookbook_s_renderers_too(tiny_folder: Path) -> None:
    text = 'So:\n<tool_call>\n{"name": "add", "arguments": {"a": 7,}}\n</tool_call>'
    reply = _renderer(tiny_folder, "qwen3").parse(f"<think>\n\n</think>\n\n{text}", [TOOL])
    assert reply.calls == (Call("add", '{"a": 7,}'),)
    assert reply.content.strip() == "So:"


def test_a_renderer_that_is_not_there_is_a_bad_call(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_folder)
    monkeypatch.setitem(__import__("sys").modules, "tinker_cookbook.renderers", None)
    with pytest.raises(BadCall, match=r"not installed here.*rsigym\[cloud\]"):
        CookbookRenderer(tokenizer, "qwen3")


def test_an_unknown_renderer_is_a_bad_call(tiny_folder: Path) -> None:
    with pytest.raises(BadCall, match="qwen99"):
        _renderer(tiny_folder, "qwen99")
