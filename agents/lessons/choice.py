"""Choice: questions about the facts of a text that lies in the sandbox.

Half of the records ask without the text, as the minimal harness does, and half with the paragraph
that has the answer, as a harness does that looks it up.
"""

import random
import re
from collections.abc import Mapping

from lessons.record import Record, Seen, material, record

__all__ = ["facts", "training_records"]

type People = Mapping[str, Mapping[str, str]]
"""Fact by name, by person."""

_TEXT = "people.txt"
_THROUGH = 0.25
"""Of the questions: they name a fact of a person, and not the person."""


def training_records(count: int, seed: int, seen: Seen) -> list[Record]:
    """`count` questions with options, every fact as often as any other."""
    rng, people = random.Random(seed), facts(seen.files[_TEXT])
    asked = [(person, fact) for person in people for fact in people[person]]
    rng.shuffle(asked)
    made: list[Record] = []
    for number in range(count):
        person, fact = asked[number // 2 % len(asked)]
        question = _question(people, person, fact, rng)
        if number % 2:
            text = f"{_paragraph(seen.files[_TEXT], person)}\n\n{question} Answer in one word."
        else:
            text = f"{seen.lead}{question}\nOptions: {_options(people, person, fact, rng)}"
        made.append(record(seen.system, text, people[person][fact]))
    return made


def facts(text: str) -> People:
    """What a text says about each person, by the sentences that it uses."""
    sentences = material("choice")["sentences"]
    people: dict[str, dict[str, str]] = {}
    for paragraph in filter(None, text.splitlines()):
        person = paragraph.partition(" ")[0]
        found = {
            fact: re.search(sentence.format(person=person), paragraph)
            for fact, sentence in sentences.items()
        }
        people[person] = {fact: match[1] for fact, match in found.items() if match}
    return people


def _question(people: People, person: str, fact: str, rng: random.Random) -> str:
    said = material("choice")
    if rng.random() >= _THROUGH:
        return rng.choice(said["questions"][fact]).format(person=person)
    known = rng.choice([other for other in people[person] if other != fact])
    return rng.choice(said["through"][known]).format(
        known=people[person][known], asked=said["names"][fact]
    )


def _options(people: People, person: str, fact: str, rng: random.Random) -> str:
    right = people[person][fact]
    others = [its[fact] for its in people.values() if its[fact] != right]
    return ", ".join(rng.sample([right, *rng.sample(others, 3)], 4))


def _paragraph(text: str, person: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{person} "))
