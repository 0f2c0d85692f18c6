"""RUN lines of tasks' Dockerfiles: done once in a sandbox, and kept as what trials start from.

There is no image and no root: a command works if the sandbox's one user can do it in the folders
that can be written. Packages of pip and npm land in that user's home, where its programs find
them. What a build leaves is named after all that it was made from, so it is never out of date.
"""

import asyncio
import hashlib
import json
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from rsigym.local.dockerfile import Copy, Run, TaskImage
from rsigym.local.sandbox import Egress, ExecResult, Limits, Sandbox, Template
from rsigym.local.sandbox.host import substitute_for_root
from rsigym.local.sandbox.interpreter import choose_interpreter
from rsigym.local.sandbox.launch import search_path
from rsigym.local.sandbox.layout import FOLDERS, HOME
from rsigym.local.sandbox.lookups import Resolve, system_resolver
from rsigym.local.sandbox.made_once import made_once
from rsigym.platform.errors import ServiceFailure
from rsigym.platform.home import home

__all__ = ["MIRRORS", "BuildFailure", "Builder", "with_programs"]


class BuildFailure(ServiceFailure):
    """A task's RUN lines cannot be done here. Harbor records an error's name and not its side."""


MIRRORS = {
    "pypi.org": "pip: which versions there are",
    "files.pythonhosted.org": "pip: the packages",
    "deb.debian.org": "apt-get download",
    "security.debian.org": "apt-get download",
    "archive.ubuntu.com": "apt-get download",
    "security.ubuntu.com": "apt-get download",
    "registry.npmjs.org": "npm",
    "index.crates.io": "cargo: which versions there are",
    "static.crates.io": "cargo: the packages",
    "proxy.golang.org": "go",
    "sum.golang.org": "go: checksums",
    "conda.anaconda.org": "conda-forge",
    "repo1.maven.org": "Maven",
    "rubygems.org": "gem",
}
"""Where a build may connect to unless the operator says otherwise, each with who asks there."""

_TOOLS = {
    # Not PIP_USER, which fails in virtual environments: pip finds by itself that the system's
    # packages cannot be written. But it has to be told that Debian's mark does not matter here.
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PYTHONUSERBASE": f"{HOME}/.local",
    "NPM_CONFIG_PREFIX": f"{HOME}/.local",
}
_TAIL_CHARACTERS = 2000


@dataclass(frozen=True)
class Builder:
    """Builds what RUN lines ask for, in sandboxes that reach package mirrors and nothing else.

    Attributes:
        sandboxes: The folder below which they keep their files while they live.
        limits: What they may use.
        mirrors: Where they may connect to, as `Egress.only` has it.
        env: The operator's own variables, such as PIP_INDEX_URL.
        resolve: How mirrors are looked up.
    """

    sandboxes: Path
    limits: Limits
    mirrors: Iterable[str] = tuple(MIRRORS)
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    resolve: Resolve = system_resolver

    async def build(self, image: TaskImage, template: Template, timeout_s: float) -> Path | None:
        """The archive that a trial's sandbox starts from, made now or earlier.

        Returns:
            None if the image has no RUN lines.

        Raises:
            BuildFailure: A command failed, or time was up; nothing of it is kept.
            ServiceFailure: The sandbox did not work.
        """
        if not image.built:
            return None
        content = [template.digest or _machine(), dict(template.env), {**_TOOLS, **self.env}]
        content += await asyncio.to_thread(lambda: [_content(step) for step in image.built])
        key = hashlib.sha256(json.dumps(content).encode()).hexdigest()

        async def make(part: Path) -> None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._make(image, template, part)
            except TimeoutError:
                raise BuildFailure(
                    f"{image.file} took more than {timeout_s:.0f} s to build: raise "
                    "build_timeout_sec in the task.toml",
                    side="task",
                    file=image.file,
                ) from None

        return await made_once(home() / "builds" / f"{key}.tar", make)

    async def _make(self, image: TaskImage, template: Template, part: Path) -> None:
        sandbox = Sandbox(
            self.sandboxes / uuid4().hex,
            isolation="bubblewrap",
            limits=self.limits,
            template=template,
            egress=Egress.only(self.mirrors),
            resolve=self.resolve,
        )
        async with sandbox:
            for step in image.built:
                if isinstance(step, Copy):
                    await sandbox.upload(step.source, step.target)
                else:
                    await self._run(sandbox, step, image.file)
            await sandbox.save(part)

    async def _run(self, sandbox: Sandbox, step: Run, file: str) -> None:
        await sandbox.exec(f"mkdir -p {shlex.quote(step.workdir)}", cwd="/")
        env = with_programs({**_TOOLS, **self.env, **step.env})
        result = await sandbox.exec(step.command, cwd=step.workdir, env=env)
        if result.exit_code != 0:
            raise BuildFailure(
                f"{file} line {step.line} ({f'RUN {step.command}'[:200]!r}) ended with exit status "
                f"{result.exit_code}. In a local sandbox there is no root, only "
                f"{_written(FOLDERS)} can be written, and only package mirrors can be reached. "
                f"Its output ends: {_tail(result)}",
                side="task",
                file=file,
                line=step.line,
            )


def with_programs(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with what pip and npm install on the PATH: last, so that it hides nothing else."""
    path = env.get("PATH") or search_path("bubblewrap")
    return {**env, "PATH": f"{path}:{HOME}/.local/bin"}


def _written(folders: Sequence[str]) -> str:
    return ", ".join(f"/{name}" for name in folders)


def _tail(result: ExecResult) -> str:
    said = (result.stdout + result.stderr).decode(errors="replace").strip()
    return said[-_TAIL_CHARACTERS:] or "(nothing)"


def _machine() -> str:
    """What a build on the machine's own programs depends on: its release and its Python."""
    release = Path("/etc/os-release")
    python = choose_interpreter(substitute_for_root()).path.resolve()
    return f"{release.read_text() if release.exists() else ''} {python}"


def _content(step: Copy | Run) -> Any:
    """What names a step in a build's key."""
    if isinstance(step, Run):
        return [step.command, step.workdir, dict(step.env)]
    return [step.target, *_files(step.source)]


def _files(source: Path) -> list[Any]:
    listed = list[Any]()
    for path in sorted([source, *source.rglob("*")]):
        name, mode = str(path.relative_to(source)), path.lstat().st_mode
        if stat.S_ISREG(mode):
            with path.open("rb") as file:
                listed.append([name, mode, hashlib.file_digest(file, "sha256").hexdigest()])
        elif stat.S_ISDIR(mode):
            listed.append([name, mode])
    return listed
