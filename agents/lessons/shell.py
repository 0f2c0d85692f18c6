"""Shell: requests and the commands that do them, one or two at a time."""

import random

from lessons.record import Record, Seen, material, record

__all__ = ["training_records"]

_TWO_STEPS = 0.35
"""Of the records: about what development tasks have."""


def training_records(count: int, seed: int, seen: Seen) -> list[Record]:
    """`count` different requests; once their commands have run, there is nothing left to do."""
    rng, said = random.Random(seed), material("shell")
    found: dict[str, str] = {}
    while len(found) < count:
        commands = list(said["requests"])
        first, second = rng.choice(commands), rng.choice(commands)
        steps = [_step(first, rng)]
        if rng.random() < _TWO_STEPS:
            steps.append(_step(second, rng))
        found.setdefault(_joined([text for text, _ in steps], rng), "\n".join(c for _, c in steps))
    return [
        record(seen.system, seen.lead + request, f"```sh\n{commands}\n```", "Output:\n", "Done.")
        for request, commands in found.items()
    ]


def _step(command: str, rng: random.Random) -> tuple[str, str]:
    """A request for one command, and the command."""
    said = material("shell")
    file, other = rng.sample(said["files"], 2)
    fields = {
        "file": file,
        "other": other,
        "new": rng.choice(said["new_files"]),
        "folder": rng.choice(said["folders"]),
        "word": rng.choice(said["words"]),
        "count": rng.randint(2, 6),
    }
    return rng.choice(said["requests"][command]).format(**fields), command.format(**fields)


def _joined(texts: list[str], rng: random.Random) -> str:
    if len(texts) == 1:
        return texts[0]
    first, second = texts
    lower = second if second.startswith("I ") else second[0].lower() + second[1:]
    return rng.choice(material("shell")["joins"]).format(first=first, second=lower)
