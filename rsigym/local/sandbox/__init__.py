"""Sandboxes on this machine: bubblewrap with a supervisor as PID 1, or plain processes.

`Sandbox` is the one interface. `choose_isolation` decides what is behind it, and
`describe_isolation` says what that amounts to here.
"""

from rsigym.local.sandbox.egress import Egress
from rsigym.local.sandbox.isolation import Isolation, choose_isolation
from rsigym.local.sandbox.limits import Limits
from rsigym.local.sandbox.report import describe_isolation
from rsigym.local.sandbox.sandbox import ExecResult, Sandbox
from rsigym.local.sandbox.template import BASE, Template
from rsigym.local.sandbox.templates import Templates

__all__ = [
    "BASE",
    "Egress",
    "ExecResult",
    "Isolation",
    "Limits",
    "Sandbox",
    "Template",
    "Templates",
    "choose_isolation",
    "describe_isolation",
]
