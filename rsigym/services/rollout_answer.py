"""What a frontier model answered, as OpenAI's chat completion and nothing beside it."""

import time
from typing import Any

from rsigym.operations.json_value import Json
from rsigym.platform.rollout_price import Usage

__all__ = ["completion"]


def completion(
    alias: str, raw: dict[str, Any], usage: Usage | None, cost_usd: float, retries: int
) -> dict[str, Json]:
    """The evidence of a call.

    Args:
        alias: The model as it was asked for.
        raw: litellm's chat completion.
        usage: As it was billed; None if the provider told none.
        retries: How often the provider had to be asked again.
    """
    choices: list[Json] = [_choice(each) for each in raw["choices"]]
    answer: dict[str, Json] = {
        "id": str(raw.get("id")),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": alias,
        "choices": choices,
        "usage": None if usage is None else _usage(usage),
        "cost_usd": cost_usd,
        "retries": retries,
    }
    if usage is None:
        answer["note"] = "the provider told no usage, so the worst case was charged"
    return answer


def _choice(choice: dict[str, Any]) -> dict[str, Json]:
    """A choice whose message can be sent back as it is."""
    told = choice["message"]
    message: dict[str, Json] = {"role": "assistant", "content": told.get("content")}
    if told.get("reasoning_content"):
        message["reasoning_content"] = told["reasoning_content"]
    if told.get("tool_calls"):
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {name: call["function"][name] for name in ("name", "arguments")},
            }
            for call in told["tool_calls"]
        ]
    elif message["content"] is None:
        message["content"] = ""
    return {
        "index": choice.get("index"),
        "message": message,
        "logprobs": choice.get("logprobs"),
        "finish_reason": choice.get("finish_reason"),
    }


def _usage(usage: Usage) -> dict[str, Json]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
