"""Reading an OpenAI chat request: what is not supported is refused by name, never ignored."""

from typing import Any

from pydantic import ValidationError

from rsigym.operations.inference import InferenceChat
from rsigym.platform.errors import BadCall

__all__ = ["parse_chat_request"]

_NEUTRAL: dict[str, tuple[object, ...]] = {
    "stream": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "tools": ([],),
}
"""Fields that clients send with the value that changes nothing."""


def parse_chat_request(body: object) -> InferenceChat:
    """The request that a JSON body is.

    Raises:
        BadCall: It is none, with the field as `param`.
    """
    if not isinstance(body, dict):
        raise BadCall("the body must be a JSON object: a chat completion request")
    fields: dict[str, Any] = {
        name: value
        for name, value in body.items()
        if value is not None and value not in _NEUTRAL.get(name, ())
    }
    if "max_completion_tokens" in fields:
        if "max_tokens" in fields:
            raise BadCall("give max_completion_tokens or max_tokens, not both", param="max_tokens")
        fields["max_tokens"] = fields.pop("max_completion_tokens")
    try:
        return InferenceChat.model_validate(fields)
    except ValidationError as invalid:
        error = invalid.errors(include_url=False, include_input=False)[0]
        param = ".".join(str(part) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            raise BadCall(f"{param} is not supported: leave it out", param=param) from None
        raise BadCall(f"{param}: {error['msg']}", param=param) from None
