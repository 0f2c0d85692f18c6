"""Chat messages, and checking that a value is a record of them.

A record is `{"messages": [{"role", "content"}, …]}`; other fields of a record are notes and are
not used.
"""

from typing import Literal, NotRequired, TypedDict, cast, get_args

from rsigym.platform.errors import BadCall

__all__ = ["CalledTool", "ChatMessage", "Role", "check_record"]

type Role = Literal["system", "user", "assistant"]
_ROLES = get_args(Role.__value__)


class CalledTool(TypedDict):
    """A call of a function; `arguments` as the model wrote them: JSON, or meant to be."""

    id: str
    name: str
    arguments: str


class ChatMessage(TypedDict):
    """One message of a conversation.

    Attributes:
        reasoning: What an assistant thought before it said `content`.
        calls: What an assistant called after it.
        answers: The call whose result a tool's message is.
    """

    role: Role | Literal["tool"]
    content: str
    reasoning: NotRequired[str]
    calls: NotRequired[list[CalledTool]]
    answers: NotRequired[CalledTool]


def check_record(record: object) -> list[ChatMessage]:
    """The messages of a training record, at least one of them the assistant's.

    Raises:
        BadCall: It is none; the message says where in the record and what to do.
    """
    if not isinstance(record, dict):
        raise BadCall('a record is an object, {"messages": […]}, not ' + _kind(record))
    if "messages" not in record:
        raise BadCall('the record has no "messages"')
    if "tools" in record:
        raise BadCall('"tools" are not supported: leave them out')
    messages = cast(object, record["messages"])
    if not isinstance(messages, list) or not messages:
        raise BadCall('"messages" must be a list of at least one message')
    checked = [_message(index, message) for index, message in enumerate(messages)]
    if not any(message["role"] == "assistant" for message in checked):
        raise BadCall("no message is the assistant's, so there is nothing to train on")
    return checked


def _message(index: int, message: object) -> ChatMessage:
    what = f"messages[{index}]"
    if not isinstance(message, dict):
        raise BadCall(f'{what} must be an object, {{"role", "content"}}, not {_kind(message)}')
    if message.get("role") not in _ROLES:
        raise BadCall(f"{what}: role must be {', '.join(_ROLES)}, not {_shown(message, 'role')}")
    if not isinstance(message.get("content"), str):
        raise BadCall(f"{what}: content must be a string, not {_shown(message, 'content')}")
    unknown = [key for key in message if key not in {"role", "content"}]
    if unknown:
        raise BadCall(f"{what}: field {_safe(unknown[0])!r} is not supported: leave it out")
    try:
        message["content"].encode()
    except UnicodeEncodeError as error:
        raise BadCall(
            f"{what}: content has a lone surrogate at character {error.start}, which is no text"
        ) from None
    return {"role": message["role"], "content": message["content"]}


def _shown(message: dict[object, object], field: str) -> str:
    if field not in message:
        return "missing"
    value = message[field]
    return repr(_safe(value)) if isinstance(value, str) else _kind(value)


def _safe(value: object) -> str:
    """A short form that can be shown and stored whatever it holds."""
    return str(value)[:50].encode(errors="replace").decode()


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
