"""`Repair`: a small repository with a failing test; it stands for SWE-bench.

A function of one line has one thing wrong: an operator, a number, a builtin. Its repository tests
it with two examples, one of which fails; what else it should return is hidden and decides.
Development and official functions are different ones, also when their names are taken away.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rsigym.benchmarks.data import table
from rsigym.benchmarks.mutants import mutants
from rsigym.benchmarks.tasks import Split, Task, checked_by

__all__ = ["MAX_BUGS", "Bug", "bugs", "tasks", "value"]

type Case = tuple[list[Any], Any]
"""Arguments, and what the function returns for them."""

MAX_BUGS: Final = 100
"""Per split; there are about 30 functions, each with a few things that can go wrong."""

_OTHERS: Final = 4
"""Hidden cases beside one that the broken function is known to fail."""

# The function is told and not shown: a small model repeats the program that it is shown.
_INSTRUCTION = """\
Answer with the corrected function only, in {name}.py.

{report}
"""

_FUNCTION = "def {name}({parameters}):\n    return {expression}\n"

_README = "# {name}\n\nOne function and its test: `python3 test_{name}.py`.\n"


@dataclass(frozen=True)
class Bug:
    """A function with one thing wrong.

    Attributes:
        expression, broken: What it should return, and what it does return.
        visible: Cases that its own test has; the first fails.
        hidden: Other cases, one of which at least fails.
    """

    name: str
    parameters: str
    expression: str
    broken: str
    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]

    def source(self, expression: str) -> str:
        return _FUNCTION.format(name=self.name, parameters=self.parameters, expression=expression)


def tasks(split: Split, seed: int, count: int) -> list[Task]:
    """The bugs as Harbor tasks, `repair-dev-000` or `repair-off-000` onwards."""
    reports = table("repair")[split]["reports"]
    return [
        _task(f"repair-{split[:3]}-{number:03}", bug, reports[number % len(reports)])
        for number, bug in enumerate(bugs(split, seed, count))
    ]


def bugs(split: Split, seed: int, count: int) -> list[Bug]:
    """`count` different bugs, functions in turn.

    Equal arguments give equal bugs, and a longer list begins with the shorter one.

    Raises:
        ValueError: `count` is above `MAX_BUGS`.
    """
    if count > MAX_BUGS:
        raise ValueError(f"Repair has at most {MAX_BUGS} bugs a split, not {count}")
    rng, said = random.Random(f"repair {split} {seed}"), table("repair")[split]
    columns = [
        _of_function(name, parameters, expression, rng)
        for name, (parameters, expression) in said["functions"].items()
    ]
    rng.shuffle(columns)
    rounds = range(max(map(len, columns)))
    found = [column[turn] for turn in rounds for column in columns if turn < len(column)]
    return found[:count]


def value(parameters: str, expression: str, arguments: Sequence[Any]) -> Any:
    """What a function of that one expression returns; the exception if it raises."""
    given = dict(zip(parameters.split(", "), arguments, strict=True))
    try:
        return eval(expression, given)
    except Exception as error:  # noqa: BLE001 -- a broken function may do anything
        return error


def _of_function(name: str, parameters: str, expression: str, rng: random.Random) -> list[Bug]:
    broken = mutants(expression)
    rng.shuffle(broken)
    found = (_bug(name, parameters, expression, each, rng) for each in broken)
    return [bug for bug in found if bug is not None]


def _bug(
    name: str, parameters: str, expression: str, broken: str, rng: random.Random
) -> Bug | None:
    """The bug, shown and hidden by cases drawn at random; None if these do not find it out."""
    failing, passing = list[Case](), list[Case]()
    for arguments in _arguments(parameters, rng):
        right, wrong = (value(parameters, each, arguments) for each in (expression, broken))
        if isinstance(right, Exception) or isinstance(wrong, TypeError):
            continue  # what no type checker would let through is no bug worth a test
        (passing if wrong == right else failing).append((arguments, right))
    if len(failing) < 2 or len(failing) + len(passing) < 3:
        return None
    shown, hidden, *failing = failing
    # Where some pass, one of them is shown beside one that fails.
    second, *others = [*passing, *failing]
    # Those with another value come first: what always returns the same must not do.
    others.sort(key=lambda case: case[1] == shown[1])
    cases = [shown, second, hidden, *others[:_OTHERS]]
    if all(right == shown[1] for _, right in cases):
        return None
    return Bug(name, parameters, expression, broken, tuple(cases[:2]), tuple(cases[2:]))


def _arguments(parameters: str, rng: random.Random) -> list[list[Any]]:
    """Different arguments for parameters, of the types that their names stand for."""
    found = [[_argument(name, rng) for name in parameters.split(", ")] for _ in range(40)]
    return [each for i, each in enumerate(found) if each not in found[:i]]


def _argument(name: str, rng: random.Random) -> Any:
    match name:
        case "items":
            return [rng.choice("abcdefgh") for _ in range(rng.randint(0, 5))]
        case "numbers":
            return [rng.randint(-3, 9) for _ in range(rng.randint(2, 4))]
        case "word" | "a_word" | "b_word":
            return rng.choice(table("repair")["words"])
        case "age":
            return rng.randint(10, 20)
        case "high":
            return rng.randint(10, 15)
        case "low":
            return rng.randint(3, 9)
        case _:
            return rng.randint(2, 20)


def _task(name: str, bug: Bug, report: str) -> Task:
    arguments, right = bug.visible[0]
    wrong = value(bug.parameters, bug.broken, arguments)
    raised = isinstance(wrong, Exception)
    did = f"raised {type(wrong).__name__}" if raised else f"returned {wrong!r}"
    said = report.format(
        function=f"{bug.name}({bug.parameters})",
        broken=bug.broken,
        call=_call(bug.name, arguments),
        right=repr(right),
        did=did,
    )
    repaired = bug.source(bug.expression)
    return Task(
        name=name,
        instruction=_INSTRUCTION.format(name=bug.name, report=said),
        solution=f"#!/bin/sh\ncat > {bug.name}.py <<'END'\n{repaired}END\n",
        files=_repository(bug),
        **checked_by(
            "function",
            {"file": f"{bug.name}.py", "name": bug.name, "cases": [*bug.visible, *bug.hidden]},
        ),
    )


def _repository(bug: Bug) -> dict[str, str]:
    asserts = [f"assert {_call(bug.name, given)} == {right!r}" for given, right in bug.visible]
    return {
        f"{bug.name}.py": bug.source(bug.broken),
        f"test_{bug.name}.py": "\n".join([f"from {bug.name} import {bug.name}", "", *asserts, ""]),
        "README.md": _README.format(name=bug.name),
    }


def _call(name: str, arguments: Sequence[Any]) -> str:
    return f"{name}({', '.join(map(repr, arguments))})"
