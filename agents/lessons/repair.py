"""Repair: functions of one line with one thing wrong, and what they should be."""

import random
from collections.abc import Mapping
from typing import Any

from lessons.record import Record, Seen, material, record

__all__ = ["training_records"]

_NUMBERS = (2, 4, 5, 6, 8, 9)

_INSTRUCTION = """\
Answer with the corrected function only, in {name}.py.

{report}"""


def training_records(count: int, seed: int, seen: Seen) -> list[Record]:
    """`count` different functions, broken ones and repaired ones."""
    rng = random.Random(seed)
    found: dict[str, str] = {}
    while len(found) < count:
        for function in material("repair")["functions"]:
            instruction, repaired = _bug(function, rng)
            found.setdefault(instruction, repaired)
    return [record(seen.system, asked, said) for asked, said in [*found.items()][:count]]


def _bug(function: Mapping[str, Any], rng: random.Random) -> tuple[str, str]:
    """An instruction to repair a function, and the function repaired."""
    said, parameters = material("repair"), function["parameters"]
    k, j = rng.sample(_NUMBERS, 2)
    name = rng.choice(function["names"])
    right, wrong = (
        expression.format(k=k, j=j)
        for expression in (function["right"], rng.choice(function["wrong"]))
    )
    while True:
        arguments = [_argument(parameter, rng) for parameter in parameters.split(", ")]
        expected, given = (_value(parameters, each, arguments) for each in (right, wrong))
        if not isinstance(expected, Exception) and given != expected:
            break
    raised = isinstance(given, Exception)
    report = rng.choice(said["reports"]).format(
        function=f"{name}({parameters})",
        broken=wrong,
        call=f"{name}({', '.join(map(repr, arguments))})",
        right=repr(expected),
        did=f"raised {type(given).__name__}" if raised else f"returned {given!r}",
    )
    head = f"def {name}({parameters}):\n    return "
    return _INSTRUCTION.format(name=name, report=report), head + right


def _argument(parameter: str, rng: random.Random) -> Any:
    match parameter:
        case "scores":
            return [rng.randint(0, 12) for _ in range(rng.randint(2, 5))]
        case "name":
            return rng.choice(material("repair")["words"])
        case _:
            return rng.randint(1, 20)


def _value(parameters: str, expression: str, arguments: list[Any]) -> Any:
    """What a function of that one expression returns; the exception if it raises."""
    try:
        return eval(expression, dict(zip(parameters.split(", "), arguments, strict=True)))
    except Exception as error:  # noqa: BLE001 -- a broken function may do anything
        return error
