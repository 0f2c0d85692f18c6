"""`Choice`: questions with four options about a small invented world; it stands for GPQA.

Twelve people have a town, a job, a favorite food, a pet, a hobby and a best friend each, and
`people.txt` in the sandbox says so. A model can look facts up, or a harness for it. Half the
questions name the person, a quarter go through another of the person's facts, and a quarter through
whose best friend it is: these take two steps. The world of a seed is one for both splits, as a
science is; but every fact is asked for in one split only, and each split has wordings of its own.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rsigym.benchmarks.data import table
from rsigym.benchmarks.tasks import Split, Task, checked_by

__all__ = ["MAX_QUESTIONS", "Question", "World", "questions", "tasks"]

type Fact = tuple[str, str]
"""A person and what is asked about them: ("Anna", "job")."""

MAX_QUESTIONS: Final = 120
"""Per split: 30 facts of each, in three wordings, through each of four others, and through whose
friend it is in three wordings."""
_KINDS: Final = ("direct", "through", "direct", "friend")
"""Of questions, in turn."""

_INSTRUCTION = """\
Answer with one option only, in answer.txt.

{question}
Options: {options}
"""


@dataclass(frozen=True)
class World:
    """The people, and what is true of each.

    Attributes:
        people: Fact by name, by person.
        friends: The best friend of each, who is nobody else's.
        text: All of it, a paragraph for each person.
        owners: The split that asks for a fact.
    """

    people: Mapping[str, Mapping[str, str]]
    friends: Mapping[str, str]
    text: str
    owners: Mapping[Fact, Split]

    @classmethod
    def of(cls, seed: int) -> "World":
        """The world of a seed; no two people share a fact."""
        rng, said = random.Random(f"choice world {seed}"), table("choice")["world"]
        names = rng.sample(said["people"], len(said["people"]))
        columns = {fact: rng.sample(values, len(values)) for fact, values in said["facts"].items()}
        people = {
            name: {fact: column[i] for fact, column in columns.items()}
            for i, name in enumerate(names)
        }
        friends = dict(zip(names, names[1:] + names[:1], strict=True))
        facts: list[Fact] = [(name, fact) for name in names for fact in columns]
        rng.shuffle(facts)
        splits: tuple[Split, Split] = ("development", "official")
        return cls(
            people,
            friends,
            "\n".join(
                said["paragraph"].format(person=name, friend=friends[name], **people[name])
                for name in sorted(names)
            ),
            {fact: splits[i % 2] for i, fact in enumerate(facts)},
        )


@dataclass(frozen=True)
class Question:
    """A question, the fact it asks for, and its options."""

    text: str
    fact: Fact
    options: tuple[str, ...]
    right: str


def tasks(split: Split, seed: int, count: int) -> list[Task]:
    """The questions as Harbor tasks, `choice-dev-000` or `choice-off-000` onwards."""
    text = World.of(seed).text
    return [
        Task(
            name=f"choice-{split[:3]}-{number:03}",
            instruction=_INSTRUCTION.format(
                question=question.text, options=", ".join(question.options)
            ),
            solution=f"#!/bin/sh\necho {question.right} > answer.txt\n",
            files={"people.txt": text},
            **checked_by("option", {"options": question.options, "right": question.right}),
        )
        for number, question in enumerate(questions(split, seed, count))
    ]


def questions(split: Split, seed: int, count: int) -> list[Question]:
    """`count` different questions: of each four, two name the person, one goes through another
    fact, one through a friend.

    Equal arguments give equal questions, and a longer list begins with the shorter one.

    Raises:
        ValueError: `count` is above `MAX_QUESTIONS`.
    """
    if count > MAX_QUESTIONS:
        raise ValueError(f"Choice has at most {MAX_QUESTIONS} questions a split, not {count}")
    world, rng = World.of(seed), random.Random(f"choice {split} {seed}")
    facts = [fact for fact, owner in world.owners.items() if owner == split]
    found: dict[str, Question] = {}
    turns = Counter[str]()
    while len(found) < count:
        kind = _KINDS[len(found) % len(_KINDS)]
        # In turns, so that a fact is asked for again only once all others have been.
        fact = facts[turns[kind] % len(facts)]
        turns[kind] += 1
        text = _text(world, fact, kind, table("choice")[split], rng)
        if text not in found:
            found[text] = _question(world, text, fact, rng)
    return list(found.values())


def _text(world: World, fact: Fact, kind: str, said: Mapping[str, Any], rng: random.Random) -> str:
    person, asked = fact
    if kind == "direct":
        return rng.choice(said["direct"][asked]).format(person=person)
    name = said["names"][asked]
    if kind == "friend":
        (other,) = (one for one, friend in world.friends.items() if friend == person)
        return rng.choice(said["friend"]).format(asked=name, person=other)
    known = rng.choice([other for other in world.people[person] if other != asked])
    return said["through"][known].format(asked=name, known=world.people[person][known])


def _question(world: World, text: str, fact: Fact, rng: random.Random) -> Question:
    person, asked = fact
    right = world.people[person][asked]
    wrong = rng.sample([p[asked] for p in world.people.values() if p[asked] != right], 3)
    return Question(text, fact, tuple(rng.sample([right, *wrong], 4)), right)
