"""Sandboxes on this machine: bubblewrap with a supervisor as PID 1, or plain processes.

`Sandbox` is the one interface. `choose_isolation` decides what is behind it, and
`describe_isolation` says what that amounts to here.
"""

from rsigym.local.sandbox.commands import ExecResult
from rsigym.local.sandbox.egress import Egress
from rsigym.local.sandbox.files import Entry
from rsigym.local.sandbox.isolation import Isolation, choose_isolation
from rsigym.local.sandbox.limits import Limits
from rsigym.local.sandbox.process import Exit, Output, Process
from rsigym.local.sandbox.report import describe_isolation
from rsigym.local.sandbox.sandbox import Sandbox
from rsigym.local.sandbox.template import BASE, Template
from rsigym.local.sandbox.templates import Templates
from rsigym.local.sandbox.usage import Usage
from rsigym.local.sandbox.watch import Event, Watch

__all__ = [
    "BASE",
    "Egress",
    "Entry",
    "Event",
    "ExecResult",
    "Exit",
    "Isolation",
    "Limits",
    "Output",
    "Process",
    "Sandbox",
    "Template",
    "Templates",
    "Usage",
    "Watch",
    "choose_isolation",
    "describe_isolation",
]
