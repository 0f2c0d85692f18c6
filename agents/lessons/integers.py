"""Arithmetic: questions that are answered with their calculation, such as `4*6+2 = 26`."""

import random
from collections.abc import Iterator

from lessons.record import Record, Seen, material, record

__all__ = ["training_records"]


def training_records(count: int, seed: int, seen: Seen) -> list[Record]:
    """`count` different questions and their calculations."""
    rng = random.Random(seed)
    answers: dict[str, str] = {}
    for question, answer in _questions(rng):
        answers.setdefault(question, answer)
        if len(answers) == count:
            break
    return [record(seen.system, seen.lead + asked, said) for asked, said in answers.items()]


def _questions(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Questions and answers, without end."""
    words = material("integers")
    while True:
        for expression, sentences in words["questions"].items():
            numbers, value = _numbers(expression, rng)
            question = rng.choice(sentences).format(
                name=rng.choice(words["names"]), items=rng.choice(words["items"]), **numbers
            )
            yield question, f"{expression.format(**numbers)} = {value}"


def _numbers(expression: str, rng: random.Random) -> tuple[dict[str, int], int]:
    """Operands of about the size that the development tasks have, and the expression's value."""
    a, b, c = rng.randint(2, 9), rng.randint(2, 12), rng.randint(1, 9)
    large = rng.randint(10, 45)
    match expression:
        case "{a}+{b}":
            b = rng.randint(2, 25)
            return {"a": large, "b": b}, large + b
        case "{a}-{b}":
            b = rng.randint(2, large - 1)
            return {"a": large, "b": b}, large - b
        case "{a}*{b}":
            return {"a": a, "b": b}, a * b
        case "{a}/{b}":
            return {"a": a * b, "b": a}, b
        case "{a}*{b}+{c}":
            return {"a": a, "b": b, "c": c}, a * b + c
        case "{a}*{b}-{c}":
            c = min(c, a * b - 1)
            return {"a": a, "b": b, "c": c}, a * b - c
        case "{a}+{b}-{c}":
            return {"a": large, "b": b, "c": c}, large + b - c
        case "{a}+{b}+{c}":
            return {"a": large, "b": b, "c": c}, large + b + c
        case _:
            raise ValueError(f"no numbers are known for {expression}")
