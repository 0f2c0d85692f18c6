"""Choice: questions about the facts of a text that lies in the sandbox.

Three records of four find the lines that have the answer by shell commands, as the minimal harness
lets a model do: to know the facts by heart, a small model would have to be asked far too often. The
others are shown the lines, as a harness does that looks them up.
"""

import random
import re
from collections.abc import Iterator, Mapping

from lessons.record import Record, Seen, material, record

__all__ = ["facts", "training_records"]

type People = Mapping[str, Mapping[str, str]]
"""Fact by name, by person; "friend" is one of the names."""

_TEXT = "people.txt"
_SHOWN = 4
"""One record of so many is shown the lines."""
_KINDS = {"direct": 0.4, "through": 0.2, "friend": 0.4}
"""Of the questions: they name the person asked about, a fact of theirs, or whose friend it is."""


def training_records(count: int, seed: int, seen: Seen) -> list[Record]:
    """`count` records, every fact as often as any other."""
    rng, text = random.Random(seed), seen.files[_TEXT]
    people = facts(text)
    asked = _in_turn(people, rng)
    made: list[Record] = []
    for number in range(count):
        person, fact = next(asked)
        question, named = _question(people, person, fact, rng)
        answer = people[person][fact]
        if number % _SHOWN == _SHOWN - 1:
            lines = "\n".join(_paragraph(text, word) for word in named)
            turns = [f"{lines}\n\n{question} Answer in one word."]
        else:
            turns = [f"{seen.lead}{question}\nOptions: {_options(people, person, fact, rng)}"]
            for word in named:
                turns += [f"```sh\ngrep -w {word} {_TEXT}\n```", f"Output:\n{_grep(text, word)}"]
        made.append(record(seen.system, *turns, answer))
    return made


def _in_turn(people: People, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Every fact of every person, again and again in another order."""
    asked = [(person, fact) for person in people for fact in material("choice")["names"]]
    while True:
        yield from rng.sample(asked, len(asked))


def facts(text: str) -> People:
    """What a text says about each person, by the clauses that it uses."""
    clauses = material("choice")["clauses"]
    people: dict[str, dict[str, str]] = {}
    for paragraph in filter(None, text.splitlines()):
        found = {fact: re.search(clause, paragraph) for fact, clause in clauses.items()}
        person = paragraph.partition(" ")[0]
        people[person] = {fact: match[1] for fact, match in found.items() if match}
    return people


def _question(people: People, person: str, fact: str, rng: random.Random) -> tuple[str, list[str]]:
    """A question about a fact, and the words to look up for it, one after the other."""
    said = material("choice")
    (kind,) = rng.choices([*_KINDS], [*_KINDS.values()])
    if kind == "direct":
        return rng.choice(said["questions"][fact]).format(person=person), [person]
    name = said["names"][fact]
    if kind == "friend":
        (other,) = (one for one, its in people.items() if its["friend"] == person)
        return rng.choice(said["friend"]).format(asked=name, person=other), [other, person]
    known = rng.choice([other for other in said["names"] if other != fact])
    value = people[person][known]
    return rng.choice(said["through"][known]).format(known=value, asked=name), [value]


def _options(people: People, person: str, fact: str, rng: random.Random) -> str:
    right = people[person][fact]
    others = [its[fact] for its in people.values() if its[fact] != right]
    return ", ".join(rng.sample([right, *rng.sample(others, 3)], 4))


def _paragraph(text: str, word: str) -> str:
    """The line that has a word most often; of a name, the person's own."""
    return max(text.splitlines(), key=lambda line: len(re.findall(rf"\b{word}\b", line)))


def _grep(text: str, word: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if re.search(rf"\b{word}\b", line))
