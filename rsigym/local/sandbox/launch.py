"""Starting a supervisor, inside bubblewrap or as a plain process, and the environment inside."""

import asyncio
import json
import platform
from asyncio.subprocess import DEVNULL, Process

from rsigym.local.sandbox.bubblewrap import SUPERVISOR_INSIDE, find_bubblewrap
from rsigym.local.sandbox.cgroups import cgroup_version
from rsigym.local.sandbox.host import substitute_for_root
from rsigym.local.sandbox.interpreter import choose_interpreter
from rsigym.local.sandbox.isolation import Isolation
from rsigym.local.sandbox.layout import HOME, Layout
from rsigym.local.sandbox.limits import Limits
from rsigym.local.sandbox.template import Template

__all__ = ["base_environment", "launch", "rlimits", "search_path"]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


async def launch(
    layout: Layout,
    isolation: Isolation,
    limits: Limits,
    template: Template,
    *,
    channel: int,
    diagnosis: int,
) -> Process:
    """Starts the supervisor of a sandbox whose folders exist.

    It is started by the thread of the running loop: with that thread bubblewrap's sandboxes end.

    Args:
        layout: The sandbox's folders.
        isolation: What keeps it apart.
        limits: What its commands may use.
        template: The system that they see.
        channel: The descriptor of the supervisor's end of its channel.
        diagnosis: The descriptor that gets bubblewrap's and the supervisor's complaints.
    """
    user = substitute_for_root() if isolation == "bubblewrap" else None
    interpreter = choose_interpreter(user)
    python = [*(template.python or [str(interpreter.path)]), "-I", "-S"]
    if isolation == "bubblewrap":
        words = find_bubblewrap().command(layout, interpreter, template)
        words += [*python, SUPERVISOR_INSIDE]
    else:
        words = [*python, str(layout.supervisor)]
    config = {
        "rlimits": rlimits(limits, isolation),
        "output_bytes": limits.output_bytes,
        "root": layout.root,
    }
    return await asyncio.create_subprocess_exec(
        *words,
        str(channel),
        json.dumps(config),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=diagnosis,
        pass_fds=[channel],
        start_new_session=True,
        cwd="/",
        env={},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )


def base_environment(layout: Layout) -> dict[str, str]:
    """All environment variables that a command has before the caller adds its own.

    `RSIGYM_SANDBOX_ROOT` is what stands before `/app` and the like: empty where they exist.
    """
    return {
        "PATH": search_path("process" if layout.mapped else "bubblewrap"),
        "HOME": layout.path(HOME),
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TMPDIR": layout.path("/tmp"),
        "RSIGYM_SANDBOX_ROOT": str(layout.folder) if layout.mapped else "",
    }


def search_path(isolation: Isolation) -> str:
    """The PATH of a command: the system's folders, and the interpreter's where that is another."""
    interpreter = choose_interpreter(None if isolation == "process" else substitute_for_root())
    return _PATH if interpreter.prefix is None else f"{_PATH}:{interpreter.path.parent}"


def rlimits(limits: Limits, isolation: Isolation) -> dict[str, int]:
    """The rlimits of each command: of memory and processes only where no cgroup bounds them.

    The kernel counts a user's processes per user namespace since 5.14. Elsewhere the count is of
    all that the user runs on this machine, and a limit would fail commands for what others do.
    """
    without_cgroup = cgroup_version() is None
    counted_apart = isolation == "bubblewrap" and _kernel() >= (5, 14)
    return limits.rlimits(memory=without_cgroup, processes=without_cgroup and counted_apart)


def _kernel() -> tuple[int, int]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)
