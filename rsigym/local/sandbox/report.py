"""What keeps a sandbox apart and bounded on this machine, for people to read."""

import os
from typing import Any

from rsigym.local.sandbox.bubblewrap import find_bubblewrap
from rsigym.local.sandbox.cgroups import cgroup_bounds_cpus, cgroup_version
from rsigym.local.sandbox.host import USERS, substitute_for_root
from rsigym.local.sandbox.interpreter import choose_interpreter
from rsigym.local.sandbox.isolation import Isolation, choose_isolation
from rsigym.local.sandbox.launch import rlimits
from rsigym.local.sandbox.limits import Limits
from rsigym.local.sandbox.seccomp import seccomp_program
from rsigym.platform.errors import OperatorError

__all__ = ["describe_isolation"]

_NOT_PROTECTED: dict[Isolation, str] = {
    "bubblewrap": (
        "The kernel is shared: this contains bugs and mistakes of the agents you run, and is no "
        "wall between hostile tenants."
    ),
    "process": (
        "Nothing is kept apart: programs run as you, see what you see and reach the network."
    ),
}


def describe_isolation() -> dict[str, Any]:
    """JSON-able facts: what `auto` gives here, what it enforces, and why not more.

    Keys: `isolation`; `as_root`; `host_users` (the user ids of sandboxed processes on the host: one
    for all, or the first and last of those that each takes one of); `python` (of the supervisor);
    `bubblewrap` {version, namespaces, nested_user_namespaces, system_calls}, or None with `reason`;
    `limits` {memory, processes, cpus, disk, file_size, cpu_time: how each is enforced};
    `not_protected`, a sentence.
    """
    isolation = choose_isolation("auto")
    substitute = substitute_for_root() if isolation == "bubblewrap" else None
    facts: dict[str, Any] = {
        "isolation": isolation,
        "as_root": os.geteuid() == 0,
        "host_users": [os.geteuid()] if substitute is None else [USERS[0], USERS[-1]],
        "bubblewrap": None,
        "limits": _limits(rlimits(Limits(), isolation)),
        "not_protected": _NOT_PROTECTED[isolation],
    }
    try:
        facts["python"] = str(choose_interpreter(substitute).path)
        bubblewrap = find_bubblewrap()
    except OperatorError as error:
        return {**facts, "reason": str(error)}
    if bubblewrap.own_disk:
        facts["limits"]["disk"] = "file system in memory, the whole sandbox"
    return {
        **facts,
        "bubblewrap": {
            "version": bubblewrap.version,
            "namespaces": ["user", "pid", "mount", "network", "ipc", "uts", "cgroup"],
            "nested_user_namespaces": "forbidden" if bubblewrap.no_nesting else "allowed",
            "system_calls": "filtered" if seccomp_program() else "not filtered",
        },
    }


def _limits(names: dict[str, int]) -> dict[str, str]:
    version = cgroup_version()
    cgroup = f"cgroup v{version}, the whole sandbox"
    unbounded = "not bounded"
    return {
        "memory": cgroup if version else "rlimit, each process",
        "processes": cgroup
        if version
        else "rlimit, the whole sandbox"
        if "RLIMIT_NPROC" in names
        else unbounded,
        "cpus": cgroup if cgroup_bounds_cpus() else unbounded,
        "disk": unbounded,
        "file_size": "rlimit, each file",
        "cpu_time": "rlimit, each process, where set",
    }
