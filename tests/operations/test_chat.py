"""A chat request: OpenAI's fields, taken strictly; what is more than answering is refused."""

from typing import Any

import pytest

from rsigym.operations.chat import ChatRequest
from rsigym.operations.rollout import RolloutChat
from rsigym.platform.errors import BadCall
from rsigym.platform.parse import parse

HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{7,"}}


def call(**fields: Any) -> dict[str, Any]:
    return {"op": "rollout.chat", "args": {"model": "m", "messages": HELLO, **fields}}


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": role, "content": "x"} for role in ("system", "developer", "user")]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"messages": [{"role": "assistant", "content": "x", "reasoning_content": "y"}]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}]},
        {"messages": [{"role": "tool", "tool_call_id": "c1", "content": "12"}]},
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        {"tools": [TOOL], "tool_choice": named("add")},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
        {"n": 2, "stop": ["a", "b"], "seed": 1, "logprobs": True, "top_logprobs": 3},
        {"max_tokens": 5, "temperature": 0, "top_p": 0.5},
        {"max_completion_tokens": 5, "frequency_penalty": -1, "presence_penalty": 1.5},
        {"reasoning_effort": "low"},
    ],
)
def test_a_request_travels_unchanged(fields: dict[str, Any]) -> None:
    assert parse(call(**fields)).to_call() == call(**fields)


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "only text is passed on"),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]},
            "only text is passed on",
        ),
        ({"tools": [{"type": "web_search"}]}, "no provider's own tools, such as 'web_search'"),
        ({"tools": [{"type": "code_interpreter"}]}, "only functions are passed on"),
        ({"web_search_options": {}}, "web_search_options: Extra inputs"),
        ({"extra_body": {}}, "extra_body: Extra inputs"),
        ({"api_base": "http://127.0.0.1"}, "api_base: Extra inputs"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "not both"),
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"max_tokens": True}, "valid integer"),
        ({"n": "2"}, "valid integer"),
        ({"temperature": float("nan")}, "finite"),
        ({"top_logprobs": 2}, "needs logprobs"),
        ({"tool_choice": "auto"}, "need tools"),
        ({"parallel_tool_calls": False}, "need tools"),
        ({"tools": [TOOL], "tool_choice": named("sub")}, "'sub', which is not among the tools"),
        ({"messages": []}, "at least 1 item"),
        ({"messages": [{"role": "assistant"}]}, "has content or tool_calls"),
        ({"messages": [{"role": "function", "content": "x"}]}, "role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "tool_call_id: Field required"),
        ({"response_format": {"type": "json_schema"}}, "json_schema: Field required"),
        ({"stop": []}, "stop"),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(BadCall) as refused:
        parse(call(**fields))
    assert says in refused.value.message


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_completion_has_one_limit_under_either_name(name: str) -> None:
    request = parse(call(**{name: 7}))
    assert isinstance(request, ChatRequest)
    assert request.completion_limit == 7
    assert RolloutChat.paid
