"""The templates that there are: the machine's own, and those that the operator gives.

In the folder `RSIGYM_TEMPLATES` each entry is one, named after it: an archive of a root file
system as `docker export` makes it (`NAME.tar`, `.tar.gz`, …), a folder that is one, or a folder
with `rootfs` (or `rootfs.tar`, …) and `template.json` {"env": {…}, "workdir": "/app"} beside it.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel, Field

from rsigym.local.sandbox.bubblewrap import find_bubblewrap
from rsigym.local.sandbox.host import may_enter, substitute_for_root
from rsigym.local.sandbox.host_python import host_python
from rsigym.local.sandbox.interpreter import CHECK
from rsigym.local.sandbox.layout import WORKDIR
from rsigym.local.sandbox.made_once import made_once, readable_store
from rsigym.local.sandbox.snapshot import first_files
from rsigym.local.sandbox.template import BASE, Template
from rsigym.local.sandbox.unpack import digest_of, unpack
from rsigym.platform.errors import BadCall, OperatorError
from rsigym.platform.home import home

__all__ = ["Description", "Templates"]

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_OWN_PYTHON = ("/usr/bin/python3",)


class Description(BaseModel, extra="forbid", frozen=True):
    """`template.json`.

    Attributes:
        env: Environment variables of every command.
        workdir: Where commands run that name no other place.
    """

    env: dict[str, str] = {}
    workdir: str = Field(default=WORKDIR, pattern="^/")


class Templates:
    """Templates by name; an archive is unpacked once, when it is first asked for."""

    def __init__(self, given: Mapping[str, Path] | None = None):
        """
        Args:
            given: Archives and folders by name, on top of those in `RSIGYM_TEMPLATES`.

        Raises:
            OperatorError: One of them does not exist.
        """
        self._sources = {name: _Source.at(path) for name, path in _in_folder().items()}
        self._sources |= {name: _Source.at(path) for name, path in (given or {}).items()}
        self._made: dict[str, Template] = {}

    @property
    def names(self) -> list[str]:
        """All of them, "base" first."""
        return [BASE.name, *sorted(self._sources.keys() - {BASE.name})]

    def description(self, name: str) -> Description:
        """What is said of a template, without making it; nothing is of one that there is not."""
        source = self._sources.get(name)
        return Description() if source is None else source.description

    async def get(self, name: str) -> Template:
        """
        Raises:
            BadCall: There is none of that name.
            OperatorError: It cannot be used on this machine; the message says why.
        """
        if name not in self.names:
            raise BadCall(f"there is no template {name!r}: use one of {', '.join(self.names)}")
        if name not in self._made:
            source = self._sources.get(name)
            self._made[name] = BASE if source is None else await _make(name, source)
        return self._made[name]


@dataclass(frozen=True)
class _Source:
    """An archive or folder, and what is said of it."""

    root: Path
    description: Description

    @classmethod
    def at(cls, path: Path) -> "_Source":
        if not path.exists():
            raise OperatorError(f"there is no template at {path}")
        packed = [path / f"rootfs{ending}" for ending in ("", *_ARCHIVES)]
        root = next((each for each in packed if each.exists()), path)
        description = path / "template.json"
        if root == path or not description.exists():
            return cls(root, Description())
        try:
            return cls(root, Description.model_validate_json(description.read_bytes()))
        except ValueError as error:
            raise OperatorError(
                f'{description} has to be {{"env": {{"NAME": "text"}}, "workdir": "/folder"}}, '
                "both optional"
            ) from error


def _in_folder() -> dict[str, Path]:
    configured = os.environ.get("RSIGYM_TEMPLATES")
    if not configured:
        return {}
    folder = Path(configured).expanduser()
    if not folder.is_dir():
        raise OperatorError(f"RSIGYM_TEMPLATES names {folder}, which is not a folder")
    return {_name(path): path for path in folder.iterdir() if path.is_dir() or _is_archive(path)}


def _name(path: Path) -> str:
    endings = [ending for ending in _ARCHIVES if path.is_file() and path.name.endswith(ending)]
    return path.name.removesuffix(max(endings, key=len, default=""))


def _is_archive(path: Path) -> bool:
    return path.is_file() and path.name.endswith(_ARCHIVES)


async def _make(name: str, source: _Source) -> Template:
    digest = await asyncio.to_thread(digest_of, source.root)
    root = source.root.resolve()
    if root.is_file():
        root = await made_once(
            readable_store("templates") / digest,
            lambda part: asyncio.to_thread(unpack, source.root, part),
        )
    elif not may_enter(root / "usr", substitute_for_root()):
        raise OperatorError(
            f"the sandboxes' user may not enter {root}: move template {name} to a folder that "
            "every user may enter, or give it as an archive"
        )
    first = await made_once(
        home() / "templates" / f"{digest}.first.tar",
        lambda part: asyncio.to_thread(first_files, root, part),
    )
    said = source.description
    template = Template(name, root, first, said.env, said.workdir, digest=digest)
    return await asyncio.to_thread(_with_python, template)


def _with_python(template: Template) -> Template:
    """The template with an interpreter that was seen to work in it.

    Raises:
        OperatorError: None does, or there is no bash to run commands with.
    """
    works = partial(_complaint, template)
    if why := works((), ("/bin/bash", "-c", "exit 0")):
        raise OperatorError(f"template {template.name} cannot run /bin/bash: {why}")
    if not works((), (*_OWN_PYTHON, "-I", "-S", "-c", CHECK)):
        return replace(template, python=_OWN_PYTHON)
    try:
        binds, python = host_python()
        why = works(binds, (*python, "-I", "-S", "-c", CHECK))
    except (OSError, StopIteration) as error:
        binds, python, why = (), (), str(error)
    if why:
        raise OperatorError(
            f"template {template.name} has no Python 3.10 or later as {_OWN_PYTHON[0]}, and this "
            f"machine's does not run in it ({why}): install one there"
        )
    return replace(template, python=python, binds=binds)


def _complaint(template: Template, binds: tuple[str, ...], check: tuple[str, ...]) -> str:
    return find_bubblewrap().complaint(replace(template, binds=binds), check)
