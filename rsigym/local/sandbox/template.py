"""What a sandbox starts from: the system that its programs see, and its first files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rsigym.local.sandbox.layout import WORKDIR

__all__ = ["BASE", "Template"]


@dataclass(frozen=True)
class Template:
    """A root file system by its name; `Templates` makes them.

    Attributes:
        name: What callers call it.
        root: The host folder with it, read-only in sandboxes; None for this machine's programs.
        first_files: An archive of what it has in the standard folders, such as /app: each sandbox
            starts with a copy of its own.
        env: Environment variables of every command.
        workdir: Where commands run that name no other place.
        python: The words that run its supervisor's interpreter; none for the machine's own.
        binds: What bubblewrap has to show beside `root` for that, in its own words.
        digest: Names its content, for what is made from it.
    """

    name: str
    root: Path | None = None
    first_files: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    workdir: str = WORKDIR
    python: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    digest: str = ""


BASE = Template("base")
"""The host's Python and common tools."""
