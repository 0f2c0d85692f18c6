"""What a task's Dockerfile asks for, as far as a sandbox can give it without building an image."""

import posixpath
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rsigym.local.dockerfile_words import (
    expand,
    here_document,
    logical_lines,
    split_words,
    variables,
)
from rsigym.local.sandbox.layout import WORKDIR
from rsigym.platform.errors import ServiceFailure

__all__ = ["Copy", "Run", "TaskImage", "read_dockerfile"]


@dataclass(frozen=True)
class Copy:
    """A host file or folder, and the path inside that it becomes."""

    source: Path
    target: str


@dataclass(frozen=True)
class Run:
    """A command of the build.

    Attributes:
        command: For bash.
        workdir: Where it runs.
        env: Its environment variables, arguments of the build among them.
        line: Where the Dockerfile has it.
    """

    command: str
    workdir: str
    env: Mapping[str, str]
    line: int


@dataclass(frozen=True)
class TaskImage:
    """What a Dockerfile asks for and a sandbox can give.

    Attributes:
        base: What it starts FROM.
        workdir: Where commands run.
        env: Their environment variables.
        steps: Copies and commands of the build, in order.
        file: The Dockerfile, as errors call it.
    """

    base: str = ""
    workdir: str = WORKDIR
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: tuple[Copy | Run, ...] = ()
    file: str = ""

    @property
    def built(self) -> tuple[Copy | Run, ...]:
        """The steps that have to be done before a trial: all up to the last command."""
        runs = [number for number, step in enumerate(self.steps) if isinstance(step, Run)]
        return self.steps[: runs[-1] + 1] if runs else ()

    @property
    def copies(self) -> list[Copy]:
        """What is left to do when a trial begins."""
        return [step for step in self.steps[len(self.built) :] if isinstance(step, Copy)]

    @property
    def places(self) -> list[str]:
        """Every path that it writes to by itself."""
        steps = [step.target if isinstance(step, Copy) else step.workdir for step in self.steps]
        return [self.workdir, *steps]


_WITHOUT_EFFECT = {"CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER"} | {
    "STOPSIGNAL",
    "USER",
}
"""Harbor replaces the main process, nobody looks from outside at the rest, and a sandbox has one
user, who owns all that can be written."""

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def read_dockerfile(path: Path, base_of: Callable[[str], TaskImage] = TaskImage) -> TaskImage:
    """Reads what a sandbox can give; COPY is relative to the Dockerfile's folder.

    Args:
        path: The Dockerfile.
        base_of: What stands in for an image that a task starts FROM.

    Raises:
        ServiceFailure: On the first line that cannot be done, with `file` and `line`.
    """
    file = f"environment/{path.name}"
    reading = _Reading(path.parent, base_of)
    for number, line in logical_lines(path.read_text(encoding="utf-8")):
        instruction, *rest = line.split(None, 1)
        try:
            reading.do(instruction.upper(), "".join(rest), number)
        except ValueError as error:
            raise ServiceFailure(
                f"{file} line {number} ({line[:200]!r}): {error}; "
                "change the line, or run this task in the cloud",
                side="task",
                file=file,
                line=number,
            ) from error
    return replace(reading.image, file=file)


class _Reading:
    """The image so far, and the variables that the next line may use."""

    def __init__(self, context: Path, base_of: Callable[[str], TaskImage]):
        self.image = TaskImage()
        self._context = context
        self._base_of = base_of
        self._arguments = dict[str, str]()
        self._before_from = dict[str, str]()

    def do(self, instruction: str, value: str, line: int) -> None:
        """Takes one instruction in; raises ValueError for one that cannot be done."""
        if instruction == "RUN":
            self._run(value, line)
            return
        if instruction in _WITHOUT_EFFECT:
            return
        value = expand(value, self._known)
        match instruction:
            case "FROM" if not self.image.base:
                self._from(value)
            case "ARG":
                self._arg(value)
            case "WORKDIR":
                self.image = replace(self.image, workdir=self._inside(value))
            case "ENV":
                self.image = replace(self.image, env={**self.image.env, **variables(value)})
            case "COPY" | "ADD":
                copies = tuple(self._copies(value, unpacks=instruction == "ADD"))
                self.image = replace(self.image, steps=(*self.image.steps, *copies))
            case _:
                raise ValueError(f"local sandboxes build no images and cannot do {instruction}")

    @property
    def _known(self) -> dict[str, str]:
        return {**self._arguments, **self.image.env}

    def _from(self, value: str) -> None:
        words = [word for word in value.split() if not word.startswith("--platform=")]
        if not words:
            raise ValueError("FROM needs the name of an image")
        self.image = self._base_of(words[0])
        self._before_from, self._arguments = self._arguments, {}

    def _arg(self, value: str) -> None:
        for word in shlex.split(value):
            name, is_given, default = word.partition("=")
            if is_given:
                self._arguments[name] = default
            elif name in self._before_from:
                self._arguments[name] = self._before_from[name]

    def _run(self, value: str, line: int) -> None:
        if here_document(value) or value.startswith("--"):
            raise ValueError("RUN takes a command here, without options and here-documents")
        command = shlex.join(split_words(value)) if value.startswith("[") else value
        env = {**self._arguments, **self.image.env}
        step = Run(command, self.image.workdir, env, line)
        self.image = replace(self.image, steps=(*self.image.steps, step))

    def _copies(self, value: str, *, unpacks: bool) -> Iterator[Copy]:
        # There is one user, so it does not matter whom files are given to.
        words = split_words(" ".join(w for w in value.split(" ") if not w.startswith("--chown=")))
        if len(words) < 2 or words[0].startswith("--"):
            raise ValueError("COPY takes sources and a target here, without options")
        *names, target = words
        sources = [source for name in names for source in self._sources(name, unpacks=unpacks)]
        inside = self._inside(target)
        into = target.endswith("/") or inside == self.image.workdir or len(sources) > 1
        for source in sources:
            below = into and source.is_file()
            yield Copy(source, posixpath.join(inside, source.name) if below else inside)

    def _sources(self, name: str, *, unpacks: bool) -> list[Path]:
        if unpacks and ("://" in name or name.startswith("git@") or name.endswith(_ARCHIVES)):
            raise ValueError("of ADD only what COPY does can be done: no URLs, no unpacking")
        context = self._context.resolve()
        pattern = posixpath.normpath(name.lstrip("/") or ".")
        found = sorted(context.glob(pattern)) if set("*?[") & set(pattern) else [context / pattern]
        for source in found:
            if not source.resolve().is_relative_to(context) or not source.exists():
                raise ValueError(f"{name!r} is not in the environment folder")
        if not found:
            raise ValueError(f"nothing in the environment folder matches {name!r}")
        return [source.resolve() for source in found]

    def _inside(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.image.workdir, path))
