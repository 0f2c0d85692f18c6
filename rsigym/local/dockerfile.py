"""What a task's Dockerfile asks for, as far as a sandbox can give it without building an image."""

import posixpath
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rsigym.local.sandbox.layout import WORKDIR
from rsigym.platform.errors import ServiceFailure

__all__ = ["TaskImage", "read_dockerfile"]


@dataclass(frozen=True)
class TaskImage:
    """What a Dockerfile asks for and a sandbox can give.

    Attributes:
        workdir: Where commands run.
        env: Their environment variables.
        copies: Host file or folder, and the path inside that it becomes, in order.
    """

    workdir: str = WORKDIR
    env: dict[str, str] = field(default_factory=dict)
    copies: tuple[tuple[Path, str], ...] = ()


_WITHOUT_EFFECT = {"CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL"}
"""Harbor replaces the main process, and nobody looks from outside at the rest."""


def read_dockerfile(path: Path) -> TaskImage:
    """Reads what a sandbox can give; COPY is relative to the Dockerfile's folder.

    Raises:
        ServiceFailure: On the first line that needs a build, with `file` and `line`.
    """
    workdir, env, copies = WORKDIR, dict[str, str](), list[tuple[Path, str]]()
    stages = 0
    for number, line in _logical_lines(path.read_text(encoding="utf-8")):
        instruction, _, value = line.partition(" ")
        value = value.strip()
        try:
            match instruction.upper():
                case "FROM" if stages == 0:
                    stages += 1
                case "WORKDIR":
                    workdir = posixpath.normpath(posixpath.join(workdir, _literal(value)))
                case "ENV":
                    env |= _variables(_literal(value))
                case "COPY":
                    copies += _copies(path.parent, workdir, _literal(value))
                case name if name in _WITHOUT_EFFECT:
                    pass
                case name:
                    raise ValueError(f"local sandboxes build no images and cannot do {name}")
        except ValueError as error:
            raise ServiceFailure(
                f"environment/{path.name} line {number} ({line[:200]!r}): {error}; "
                "use FROM, WORKDIR, ENV and COPY of files only, or run this task in the cloud",
                side="task",
                file=f"environment/{path.name}",
                line=number,
            ) from error
    return TaskImage(workdir, env, tuple(copies))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Instructions with the number of their first line; continuations joined, comments gone."""
    start, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        start = start if parts else number
        parts.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            yield start, " ".join(parts)
            parts = []
    if parts:
        yield start, " ".join(parts)


def _literal(value: str) -> str:
    if "$" in value or "<<" in value:
        raise ValueError("variables and here-documents are not supported")
    return value


def _variables(value: str) -> dict[str, str]:
    name, _, rest = value.partition(" ")
    # Without an equals sign it is the old form, of one variable: ENV NAME the whole rest.
    words = shlex.split(value) if "=" in name else [f"{name}={rest}" if rest else name]
    if not all("=" in word for word in words):
        raise ValueError("ENV needs NAME=value")
    return dict(word.split("=", 1) for word in words)


def _copies(context: Path, workdir: str, value: str) -> Iterator[tuple[Path, str]]:
    words = shlex.split(value)
    if len(words) < 2 or words[0].startswith(("--", "[")):
        raise ValueError("COPY takes sources and a target here, without options")
    *sources, target = words
    inside = posixpath.normpath(posixpath.join(workdir, target))
    is_folder = target.endswith("/") or inside == workdir or len(sources) > 1
    for name in sources:
        source = (context / name.lstrip("/")).resolve()
        if not source.is_relative_to(context.resolve()) or not source.exists():
            raise ValueError(f"{name!r} is not in the environment folder")
        yield (
            source,
            posixpath.join(inside, source.name) if is_folder and source.is_file() else inside,
        )
