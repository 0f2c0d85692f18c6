"""What keeps a sandbox apart and bounded on this machine, for people to read."""

import os
from typing import Any

from rsigym.local.sandbox.bubblewrap import find_bubblewrap
from rsigym.local.sandbox.cgroups import cgroup_version
from rsigym.local.sandbox.host import substitute_for_root
from rsigym.local.sandbox.interpreter import choose_interpreter
from rsigym.local.sandbox.isolation import choose_isolation
from rsigym.local.sandbox.launch import rlimits
from rsigym.local.sandbox.limits import Limits
from rsigym.platform.errors import OperatorError

__all__ = ["describe_isolation"]


def describe_isolation() -> dict[str, Any]:
    """JSON-able facts: what `auto` gives here, what it enforces, and why not more.

    Keys: `isolation`; `as_root`; `host_user` (the user id of sandboxed processes on the host);
    `python` (of the supervisor); `bubblewrap` {version, namespaces, nested_user_namespaces}, or
    None with `reason`; `limits` {memory, processes, file_size, cpu_time: how each is enforced}.
    """
    isolation = choose_isolation("auto")
    substitute = substitute_for_root() if isolation == "bubblewrap" else None
    facts: dict[str, Any] = {
        "isolation": isolation,
        "as_root": os.geteuid() == 0,
        "host_user": os.geteuid() if substitute is None else substitute,
        "bubblewrap": None,
        "limits": _limits(rlimits(Limits(), isolation)),
    }
    try:
        facts["python"] = str(choose_interpreter(substitute).path)
        bubblewrap = find_bubblewrap()
    except OperatorError as error:
        return {**facts, "reason": str(error)}
    return {
        **facts,
        "bubblewrap": {
            "version": bubblewrap.version,
            "namespaces": ["user", "pid", "mount", "network", "ipc", "uts", "cgroup"],
            "nested_user_namespaces": "forbidden" if bubblewrap.no_nesting else "allowed",
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
        "file_size": "rlimit, each file",
        "cpu_time": "rlimit, each process, where set",
    }
