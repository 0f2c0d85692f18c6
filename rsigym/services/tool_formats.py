"""How a model writes that it calls a function: the forms that chat templates teach.

    JsonCalls    <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>
                 Hermes, Qwen 2.5 and 3
    TaggedCalls  <tool_call><function=f><parameter=x>1</parameter></function></tool_call>
                 Qwen 3 Coder and 3.5

A call that is not well formed is one all the same, as long as it names a function: its arguments
are then what the model wrote.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rsigym.operations.json_value import Json

__all__ = ["CLOSE", "OPEN", "Call", "JsonCalls", "TaggedCalls", "Tool", "ToolFormat"]

OPEN, CLOSE = "<tool_call>", "</tool_call>"

type Tool = dict[str, Json]
"""A tool as OpenAI has it: {"type": "function", "function": {"name", …}}."""


def _finite(number: str) -> float:
    """Python's decoder takes NaN and Infinity, which nobody else reads."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not a number of JSON")
    return value


_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)
_SPACE = re.compile(r"\s*")


FUNCTION_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
"""What OpenAI takes for a function's name: a call of anything else could not be sent back."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function; `arguments` are JSON, or what the model wrote in its place."""

    name: str
    arguments: str


class ToolFormat(Protocol):
    """One of the forms. Calls stand between `OPEN` and `CLOSE`."""

    def end(self, text: str, start: int) -> int:
        """Where the body that begins at `start` ends: at its `CLOSE`, or where there is none."""
        ...

    def read(self, body: str, tools: Sequence[Tool]) -> Call | None:
        """The call that stands in a body; None if no function is named."""
        ...

    def begin(self, name: str | None) -> str:
        """The text with which a call begins, of a function or of whichever the model chooses."""
        ...

    def write(self, call: Call) -> str:
        """A whole call whose arguments may not be JSON."""
        ...


class JsonCalls:
    """One JSON object a call, with `name` and `arguments`."""

    _NAME = re.compile(r'"name"\s*:\s*"([\w-]{1,64})"', re.ASCII)
    _ARGUMENTS = re.compile(r'"arguments"\s*:\s*')

    def end(self, text: str, start: int) -> int:
        # A string in the object may hold what ends a call.
        whole = _value(text, start)
        return _next_tag(text, start if whole is None else whole[1])

    def read(self, body: str, tools: Sequence[Tool]) -> Call | None:
        whole, named = _value(body, 0), self._NAME.search(body)
        if whole is not None and isinstance(whole[0], dict):
            return self._read_object(whole[0], body)
        if named is None:
            return None
        found = self._ARGUMENTS.search(body)
        return Call(named[1], "{}" if found is None else _written(body, found.end()))

    def _read_object(self, called: dict[str, Any], body: str) -> Call | None:
        name, arguments = called.get("name"), called.get("arguments", {})
        if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
            return None
        if isinstance(arguments, str) and _is_text(arguments):
            # Some models write the JSON as a string.
            return Call(name, arguments)
        for place in self._ARGUMENTS.finditer(body):
            found = _value(body, place.end())
            if found is not None and found[0] == arguments:
                return Call(name, body[place.end() : found[1]])
        return Call(name, json.dumps(arguments))

    def begin(self, name: str | None) -> str:
        return f"{OPEN}\n" + ("" if name is None else f'{{"name": "{name}", "arguments": ')

    def write(self, call: Call) -> str:
        return f"{self.begin(call.name)}{call.arguments}}}\n{CLOSE}"


class TaggedCalls:
    """A function's tag with a tag for each parameter, whose values are plain text or JSON."""

    _NAME = re.compile(r"<function=\s*([\w-]{1,64})\s*>", re.ASCII)
    _PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
    _REST = re.compile(r"\s*(</function>)?\s*")

    def end(self, text: str, start: int) -> int:
        return _next_tag(text, start)

    def read(self, body: str, tools: Sequence[Tool]) -> Call | None:
        named = self._NAME.search(body)
        if named is None:
            return None
        types, values, at = _types(tools, named[1]), dict[str, Json](), named.end()
        while parameter := self._PARAMETER.match(body, at):
            key, at = parameter[1], parameter.end()
            values[key] = _typed(parameter[2], types.get(key))
        if self._REST.fullmatch(body, at):
            return Call(named[1], json.dumps(values))
        return Call(named[1], body[named.end() :].strip().removesuffix("</function>").strip())

    def begin(self, name: str | None) -> str:
        return f"{OPEN}\n<function=" + ("" if name is None else f"{name}>\n")

    def write(self, call: Call) -> str:
        return f"{self.begin(call.name)}{call.arguments}\n</function>\n{CLOSE}"


def _next_tag(text: str, start: int) -> int:
    """Where the next tag of a call is, or the text ends: a model may forget to close."""
    places = (text.find(tag, start) for tag in (CLOSE, OPEN))
    return min((place for place in places if place >= 0), default=len(text))


def _value(text: str, start: int) -> tuple[Any, int] | None:
    """The JSON value at `start`, white space aside, and where it ends."""
    begin = _SPACE.match(text, start)
    assert begin is not None
    try:
        return _DECODER.raw_decode(text, begin.end())
    except (ValueError, RecursionError):
        return None


def _written(body: str, start: int) -> str:
    """The arguments in what is not a JSON object."""
    found = _value(body, start)
    if found is not None:
        return body[start : found[1]]
    # All that stands there, but for the end of the object around it.
    return body[start:].rstrip().removesuffix("}").rstrip()


def _types(tools: Sequence[Tool], name: str) -> Mapping[str, object]:
    """The JSON type of each parameter of a function, as far as its schema tells."""
    for tool in tools:
        function: Any = tool["function"]
        if function["name"] == name:
            properties = (function.get("parameters") or {}).get("properties")
            if isinstance(properties, dict):
                return {
                    key: schema.get("type")
                    for key, schema in properties.items()
                    if isinstance(schema, dict)
                }
    return {}


def _typed(text: str, kind: object) -> Json:
    if kind == "string":
        return text
    found = _value(text, 0)
    return found[0] if found is not None and not text[found[1] :].strip() else text


def _is_text(string: str) -> bool:
    """Whether it can be sent: an escape may stand for half a character."""
    try:
        string.encode()
    except UnicodeEncodeError:
        return False
    return True
