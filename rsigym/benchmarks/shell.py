"""`Shell`: an English request, done by commands in the sandbox; it stands for Terminal-Bench.

Thirteen operations on small text files, a third of the tasks with two of them. What the directory
holds in the end decides. Development and official tasks share the operations and nothing else: the
wordings, the files, the words in them and the pairs of operations are each split's own.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rsigym.benchmarks.data import table
from rsigym.benchmarks.tasks import Split, Task, checked_by

__all__ = ["MAX_REQUESTS", "OPERATIONS", "Request", "requests", "tasks"]

type Files = Mapping[str, str | None]
"""Text by path; None where nothing is (left)."""

MAX_REQUESTS: Final = 150
"""Per split; a folder can be asked for in the fewest ways, twelve."""

_INSTRUCTION = """\
Answer with shell commands only, in a ```sh block.

{request}
"""


@dataclass(frozen=True)
class Operation:
    """One thing to do: the command for it, and what it changes.

    Attributes:
        command: With the fields of a request in braces.
        change: From the files before and the fields: what lies there afterwards instead.
    """

    command: str
    change: Callable[[Mapping[str, str], Mapping[str, str]], Files]


@dataclass(frozen=True)
class Request:
    """What is asked, the commands that do it, and the files before and after."""

    operations: tuple[str, ...]
    text: str
    commands: str
    before: Mapping[str, str]
    after: Files
    folders: tuple[str, ...]


def tasks(split: Split, seed: int, count: int) -> list[Task]:
    """The requests as Harbor tasks, `shell-dev-000` or `shell-off-000` onwards."""
    return [
        Task(
            name=f"shell-{split[:3]}-{number:03}",
            instruction=_INSTRUCTION.format(request=request.text),
            solution=f"#!/bin/sh\n{request.commands}\n",
            files=request.before,
            **checked_by("state", _expected(request)),
        )
        for number, request in enumerate(requests(split, seed, count))
    ]


def requests(split: Split, seed: int, count: int) -> list[Request]:
    """`count` different requests; every third has two operations.

    Equal arguments give equal requests, and a longer list begins with the shorter one.

    Raises:
        ValueError: `count` is above `MAX_REQUESTS`.
    """
    if count > MAX_REQUESTS:
        raise ValueError(f"Shell has at most {MAX_REQUESTS} requests a split, not {count}")
    rng, said = random.Random(f"shell {split} {seed}"), table("shell")[split]
    found: dict[str, Request] = {}
    while len(found) < count:
        number = len(found)
        single = (list(OPERATIONS)[(number - number // 3) % len(OPERATIONS)],)
        pair = tuple(said["pairs"][number // 3 % len(said["pairs"])])
        request = _ask(pair if number % 3 == 2 else single, said, rng)
        found.setdefault(request.text, request)
    return list(found.values())


def _ask(operations: tuple[str, ...], said: Mapping[str, Any], rng: random.Random) -> Request:
    """A request in which no operation touches what another one does."""
    files, new = rng.sample(said["files"], 4), rng.sample(said["new_files"], 2)
    before = {name: _some_lines(said["words"], rng) for name in files}
    after: dict[str, str | None] = dict(before)
    texts, commands, folders = list[str](), list[str](), list[str]()
    for number, name in enumerate(operations):
        file, other = files[2 * number : 2 * number + 2]
        fields = {
            "file": file,
            "other": other,
            "new": new[number],
            "folder": rng.choice(said["folders"]),
            "word": rng.choice(before[file].split()),
            "count": str(rng.randint(2, 3)),
        }
        texts.append(rng.choice(said["requests"][name]).format(**fields))
        commands.append(OPERATIONS[name].command.format(**fields))
        after |= OPERATIONS[name].change(before, fields)
        folders += [fields["folder"]] if name == "mkdir" else []
    return Request(
        operations=operations,
        text=_joined(said["join"], texts),
        commands="\n".join(commands),
        before=before,
        after=after,
        folders=tuple(folders),
    )


def _joined(join: str, texts: list[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    first, second = texts
    lower = second if second.startswith("I ") else second[0].lower() + second[1:]
    return join.format(first=first, second=lower)


def _some_lines(words: list[str], rng: random.Random) -> str:
    """Four to six lines of two words, so that every operation changes something."""
    return "".join(f"{' '.join(rng.sample(words, 2))}\n" for _ in range(rng.randint(4, 6)))


def _expected(request: Request) -> dict[str, Any]:
    return {
        "files": {path: text for path, text in request.after.items() if text is not None},
        "folders": request.folders,
        "absent": [path for path, text in request.after.items() if text is None],
    }


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


OPERATIONS: Final[dict[str, Operation]] = {
    "touch": Operation("touch {new}", lambda _, f: {f["new"]: ""}),
    "write": Operation("echo {word} > {new}", lambda _, f: {f["new"]: f["word"] + "\n"}),
    "append": Operation(
        "echo {word} >> {file}", lambda files, f: {f["file"]: f"{files[f['file']]}{f['word']}\n"}
    ),
    "cp": Operation("cp {file} {new}", lambda files, f: {f["new"]: files[f["file"]]}),
    "mv": Operation(
        "mv {file} {new}", lambda files, f: {f["new"]: files[f["file"]], f["file"]: None}
    ),
    "rm": Operation("rm {file}", lambda _, f: {f["file"]: None}),
    "mkdir": Operation("mkdir {folder}", lambda _, f: {}),
    "sort": Operation(
        "sort {file} > {new}",
        lambda files, f: {f["new"]: "".join(sorted(_lines(files[f["file"]])))},
    ),
    "head": Operation(
        "head -n {count} {file} > {new}",
        lambda files, f: {f["new"]: "".join(_lines(files[f["file"]])[: int(f["count"])])},
    ),
    "tail": Operation(
        "tail -n {count} {file} > {new}",
        lambda files, f: {f["new"]: "".join(_lines(files[f["file"]])[-int(f["count"]) :])},
    ),
    "grep": Operation(
        "grep {word} {file} > {new}",
        lambda files, f: {
            f["new"]: "".join(line for line in _lines(files[f["file"]]) if f["word"] in line)
        },
    ),
    "wc": Operation(
        "wc -l < {file} > {new}", lambda files, f: {f["new"]: f"{len(_lines(files[f['file']]))}\n"}
    ),
    "cat": Operation(
        "cat {file} {other} > {new}",
        lambda files, f: {f["new"]: files[f["file"]] + files[f["other"]]},
    ),
}
