"""Office: rules of every kind, and the lines that follow them, asked for by the rule alone."""

import random

from lessons.record import Record, Seen, material, record

__all__ = ["training_records"]

_ALIKE = (
    {"full name", "first name", "last name", "initials"},
    {"date", "year", "month", "day"},
    {"town", "town in capital letters"},
)


def training_records(count: int, seed: int, seen: Seen) -> list[Record]:
    """`count` rules with their records and lines."""
    rng = random.Random(seed)
    return [_record(seen, rng) for _ in range(count)]


def _record(seen: Seen, rng: random.Random) -> Record:
    said, person = material("office"), _person(rng)
    fields, separator = _fields(rng), rng.choice(said["separators"])
    *others, last = fields
    if others:
        words = ", the ".join(others) + rng.choice(said["ands"]) + last
        rule = rng.choice(said["rules"]).format(fields=words, separator=separator)
        line = separator.join(person[field] for field in fields)
    else:
        rule = rng.choice(said["sentence_rules"]).format(field=last)
        line = f"The {last} is {person[last]}."
    document = rng.choice(said["documents"])
    instruction = (
        f"Answer with the finished line only, as skills/{document}/SKILL.md says, "
        f"in {document}.txt.\n\nRecord: {_said(person)}\n{rule}"
    )
    return record(seen.system, instruction, line)


def _fields(rng: random.Random) -> list[str]:
    """One to three fields of a record, no two of which say the same."""
    while True:
        fields = rng.sample([*_person(rng)], rng.randint(1, 3))
        if all(len(alike & {*fields}) < 2 for alike in _ALIKE):
            return fields


def _person(rng: random.Random) -> dict[str, str]:
    said = material("office")
    first, last = rng.choice(said["first_names"]), rng.choice(said["last_names"])
    town = rng.choice(said["towns"])
    year, month, day = rng.randint(2001, 2024), rng.randint(1, 12), rng.randint(1, 28)
    return {
        "first name": first,
        "last name": last,
        "full name": f"{first} {last}",
        "initials": f"{first[0]}.{last[0]}.",
        "town": town,
        "town in capital letters": town.upper(),
        "date": f"{year}-{month:02}-{day:02}",
        "year": str(year),
        "month": f"{month:02}",
        "day": f"{day:02}",
        "number of pieces": str(rng.randint(11, 99)),
        "number of km": str(rng.randint(11, 99)),
    }


def _said(person: dict[str, str]) -> str:
    told = ("full name", "town", "date", "number of pieces", "number of km")
    return "; ".join(f"{field}: {person[field]}" for field in told)
