"""From what a caller sent to the operation it means, or to what is wrong with it."""

from typing import Any

from pydantic import ValidationError

from rsigym.operations import OPERATIONS, Operation
from rsigym.platform.errors import BadCall
from rsigym.platform.evidence import plain

__all__ = ["parse", "unwrapped"]

_SHOWN = 200
"""Characters of a name that are shown to whoever made it up, and of what is wrong with it."""

_MISTAKES = 10
"""How many are told: a union has one for each of its members, at every depth."""


def parse(call: object) -> Operation:
    """The operation of a call.

    Raises:
        BadCall: What is wrong with it, argument by argument.
    """
    call = unwrapped(call)
    if not isinstance(call, dict) or not isinstance(call.get("op"), str):
        raise BadCall('a call is a dict {"op": "service.verb", "args": {…}}')
    fields: dict[str, Any] = call
    name, arguments = fields["op"], fields.get("args", {})
    if unknown := fields.keys() - {"op", "args"}:
        names = sorted(str(plain(each))[:_SHOWN] for each in unknown)
        raise BadCall(f"a call has op and args and nothing else, not {names}")
    if name not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise BadCall(f"there is no operation {name[:_SHOWN]!r}; there are: {known}")
    if not isinstance(arguments, dict):
        raise BadCall(f"the args of {name} are a dict, not {type(arguments).__name__}")
    try:
        return OPERATIONS[name].model_validate(arguments)
    except ValidationError as error:
        raise BadCall(_explain(name, error)) from None
    except RecursionError:
        raise BadCall(f"the args of {name} are nested too deeply") from None


def unwrapped(call: object) -> object:
    """The dict that an `Operation` stands for; as it is what is none, or what no JSON holds."""
    if not isinstance(call, Operation):
        return call
    try:
        return call.to_call()
    except (ValueError, RecursionError):
        return call


def _explain(name: str, error: ValidationError) -> str:
    mistakes = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{'.'.join(map(str, each['loc']))[:_SHOWN] or 'args'}: {_says(each['msg'])}"
        for each in mistakes[:_MISTAKES]
    ]
    if more := len(mistakes) - len(lines):
        lines.append(f"and {more} more")
    fields = ", ".join(OPERATIONS[name].model_fields) or "none"
    return f"the args of {name} are not valid: {'; '.join(lines)} (its args: {fields})"


def _says(message: str) -> str:
    return message.removeprefix("Value error, ")[:_SHOWN]
