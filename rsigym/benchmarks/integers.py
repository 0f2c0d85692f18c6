"""`Integers`: seeded integer arithmetic and short word problems, standing for AIME.

Development and official problems share operations and difficulty and nothing else: sentences,
names and items come from separate tables, and every set of operands belongs to one split only.
"""

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rsigym.benchmarks.integer_sentences import SENTENCES
from rsigym.benchmarks.tasks import Split, Task

__all__ = ["MAX_PROBLEMS", "OPERATIONS", "Operation", "Problem", "owner", "problems", "tasks"]

type Operands = tuple[int, ...]

MAX_PROBLEMS: Final = 400
"""Per split; products have the fewest operands, 42 sets for each split."""

# The question comes last: a small model answers what it read last.
_INSTRUCTION = """\
Answer with the number only, in answer.txt.

{question}
"""

# The last number decides, so "12*7 = 84" and "It is 84." are right, and "84.5" is not. Thousands
# may be grouped, and a minus after a digit subtracts. What is no file, such as a pipe that would
# never end, is not read.
_TEST = r"""#!/bin/sh
export LC_ALL=C
answer=$([ -f /app/answer.txt ] && tail -c 4096 /app/answer.txt |
    sed -e 's/\([0-9]\),\([0-9][0-9][0-9]\)/\1\2/g' -e 's/\([0-9]\) *-/\1 - /g' |
    grep -aoE -e '-?[0-9]+(\.[0-9]+)?' | tail -n 1 | sed 's/\.0*$//')
if [ "$answer" -eq {answer} ] 2>/dev/null; then reward=1; else reward=0; fi
echo "$reward" > /logs/verifier/reward.txt
"""

_SOLUTION = """\
#!/bin/sh
echo {answer} > answer.txt
"""


@dataclass(frozen=True)
class Operation:
    """What a problem asks for: its expression, how operands are drawn, and its value."""

    expression: str
    draw: Callable[[random.Random], Operands]
    value: Callable[..., int]


@dataclass(frozen=True)
class Problem:
    """One question, the expression it asks for, and that expression's value."""

    operation: str
    question: str
    expression: str
    answer: int


def tasks(split: Split, seed: int, count: int) -> list[Task]:
    """The problems as Harbor tasks, `integers-dev-000` or `integers-off-000` onwards."""
    return [
        Task(
            name=f"integers-{split[:3]}-{number:03}",
            instruction=_INSTRUCTION.format(question=problem.question),
            test=_TEST.format(answer=problem.answer),
            solution=_SOLUTION.format(answer=problem.answer),
        )
        for number, problem in enumerate(problems(split, seed, count))
    ]


def problems(split: Split, seed: int, count: int) -> list[Problem]:
    """`count` problems, operations in turn; no two with the same operation and operands.

    Equal arguments give equal problems, and a longer list begins with the shorter one.

    Raises:
        ValueError: `count` is above `MAX_PROBLEMS`.
    """
    if count > MAX_PROBLEMS:
        raise ValueError(f"Integers has at most {MAX_PROBLEMS} problems a split, not {count}")
    rng = random.Random(f"integers {split} {seed}")
    names = list(OPERATIONS)
    found: dict[tuple[str, Operands], Problem] = {}
    while len(found) < count:
        name = names[len(found) % len(names)]
        operands = OPERATIONS[name].draw(rng)
        if owner(operands) == split and (name, operands) not in found:
            found[name, operands] = _pose(split, name, operands, rng)
    return list(found.values())


def owner(operands: Operands) -> Split:
    """The split to which these numbers belong, in whatever order they stand."""
    digest = zlib.crc32(repr(sorted(operands)).encode())
    return "official" if digest % 2 else "development"


def _pose(split: Split, name: str, operands: Operands, rng: random.Random) -> Problem:
    operation, sentences = OPERATIONS[name], SENTENCES[split]
    numbers = dict(zip("abc", operands, strict=False))
    question = rng.choice(sentences.templates[name]).format(
        name=rng.choice(sentences.names), items=rng.choice(sentences.items), **numbers
    )
    return Problem(
        name, question, operation.expression.format(**numbers), operation.value(*operands)
    )


def _two(rng: random.Random) -> Operands:
    return rng.randint(3, 40), rng.randint(2, 20)


def _larger_first(rng: random.Random) -> Operands:
    smaller, larger = sorted(rng.sample(range(2, 31), 2))
    return larger, smaller


def _factors(rng: random.Random) -> Operands:
    return rng.randint(2, 9), rng.randint(2, 12)


def _whole_quotient(rng: random.Random) -> Operands:
    divisor = rng.randint(2, 9)
    return divisor * rng.randint(2, 12), divisor


def _factors_and_more(rng: random.Random) -> Operands:
    return rng.randint(2, 9), rng.randint(2, 9), rng.randint(1, 9)


def _factors_and_fewer(rng: random.Random) -> Operands:
    groups, size = rng.randint(2, 9), rng.randint(2, 9)
    return groups, size, rng.randint(1, min(9, groups * size - 1))


def _three(rng: random.Random) -> Operands:
    return rng.randint(10, 30), rng.randint(2, 15), rng.randint(2, 9)


OPERATIONS: Final[dict[str, Operation]] = {
    "sum": Operation("{a}+{b}", _two, lambda a, b: a + b),
    "difference": Operation("{a}-{b}", _larger_first, lambda a, b: a - b),
    "product": Operation("{a}*{b}", _factors, lambda a, b: a * b),
    "gain": Operation("{a}+{b}", _two, lambda a, b: a + b),
    "loss": Operation("{a}-{b}", _larger_first, lambda a, b: a - b),
    "groups": Operation("{a}*{b}", _factors, lambda a, b: a * b),
    "sharing": Operation("{a}/{b}", _whole_quotient, lambda a, b: a // b),
    "groups and more": Operation("{a}*{b}+{c}", _factors_and_more, lambda a, b, c: a * b + c),
    "groups and fewer": Operation("{a}*{b}-{c}", _factors_and_fewer, lambda a, b, c: a * b - c),
    "gain and loss": Operation("{a}+{b}-{c}", _three, lambda a, b, c: a + b - c),
    "three parts": Operation("{a}+{b}+{c}", _three, lambda a, b, c: a + b + c),
}
