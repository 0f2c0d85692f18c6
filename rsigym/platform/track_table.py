"""What each track allows of each operation, as a table made from the presets.

`python -m rsigym.platform.track_table docs/tracks.md` writes the page.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rsigym.operations import OPERATIONS
from rsigym.operations.json_value import Json
from rsigym.platform.permissions import CHECKPOINTS, Permissions
from rsigym.platform.settings import DEFAULTS
from rsigym.platform.tracks import MAX_SANDBOXES, OFFLINE, open_permissions, track_permissions

__all__ = ["BENCHMARK", "COLUMNS", "HARNESS", "MODEL", "Cell", "cell", "page", "rows"]

MODEL, BENCHMARK, HARNESS = "the initial model", "the experiment's", "the initial harness"
"""What the table says in the place of an experiment's own."""

_OPEN = open_permissions([BENCHMARK])

COLUMNS: Mapping[str, Permissions] = {
    "no track": _OPEN,
    "Data": _OPEN & track_permissions("Data", MODEL),
    "Harness": _OPEN & track_permissions("Harness", MODEL),
    "Joint": _OPEN & track_permissions("Joint", MODEL),
    "Offline": _OPEN & OFFLINE,
}
"""The permissions of each column."""

_INTRODUCTION = """\
# Tracks

Made by `make docs` from the presets in `rsigym/platform/tracks.py`. `RSIGym/<Track>-Integers-v0` \
has a track built in; the wrappers of `rsigym.wrappers` put one on, in any order. Enforcement is \
in `Run.call`, so nothing goes around it, and permissions only ever narrow.

*Open*: any valid value. *Restricted to*: one of these, or the call is refused. *Locked to*: has \
this value; leaving it out is the same as giving it. *Revoked*: every call is refused. A refusal \
names the rule, whose rule it is, and what would be allowed.

| operation | argument | {columns} |
|{rule}|
"""

_PAID = ", ".join(f"`{name}`" for name, operation in OPERATIONS.items() if operation.paid)

_REMARKS = f"""
- Data locks the paper's values, but for local benchmarks the learning rate is 1e-3 instead of \
3e-4: their model has 135M parameters instead of 35B. `init_from` is locked too: runs that \
continue one another would be an algorithm of several epochs.
- The harness is compared by content, wherever it lies: an edited `harness/` is refused as well.
- Frontier models (`rollout.chat`) are those that the experiment's `rollout_models` offer, none by \
default, wherever they are open.
- The run's checkpoints are those that it has trained itself. To a run there are no others, in \
any track.
- Offline combines with every track. It takes the internet from sandboxes and trials, and leaves \
the platform's own services within reach. Elsewhere a trial reaches what its task asks for, and \
most ask for nothing.
- An empty budget masks the operations that cost ({_PAID}) and no other: reading, waiting, \
cancelling, quoting, submitting and work in sandboxes that are paid for go on.
- There are at most {MAX_SANDBOXES} sandboxes at a time, in every track.
"""


@dataclass(frozen=True)
class Cell:
    """What a column says about an argument; `values` are those that it may have."""

    kind: Literal["open", "restricted", "locked", "revoked"]
    values: tuple[Json, ...] = ()

    def __str__(self) -> str:
        if self.kind in ("open", "revoked"):
            return self.kind
        return f"{self.kind} to {' or '.join(map(_said, self.values))}"


def rows() -> Iterator[tuple[str, str | None]]:
    """Every operation, once for each argument that permissions can speak of, else with None."""
    for name in OPERATIONS:
        match name:
            case "training.submit":
                yield from ((name, argument) for argument in ("data", *DEFAULTS))
            case "inference.chat" | "rollout.chat":
                yield name, "model"
            case "evaluation.submit" | "run.submit":
                yield from ((name, argument) for argument in ("model", "harness", "benchmark"))
            case "sandbox.create":
                yield from ((name, argument) for argument in ("internet", "template"))
            case _:
                yield name, None


def cell(permissions: Permissions, op: str, argument: str | None) -> Cell:
    """What permissions say about an argument of an operation."""
    if not permissions.grants(OPERATIONS[op]):
        return Cell("revoked")
    match argument, permissions:
        case "model", Permissions(rollout=grant) if op == "rollout.chat":
            models = grant.models if grant else ()
            return Cell("open") if models == "*" else Cell("restricted", models)
        case "model", Permissions(inference=grant) if grant and grant.models != "*":
            return Cell("restricted", grant.models)
        case "benchmark", Permissions(evaluation=grant) if grant and grant.benchmarks != "*":
            return Cell("restricted", grant.benchmarks)
        case "harness", Permissions(evaluation=grant) if grant and grant.harness == "fixed":
            return Cell("restricted", (HARNESS,))
        case "internet", Permissions(sandbox=grant) if grant and not grant.internet:
            return Cell("restricted", (False,))
        case "template", Permissions(sandbox=grant) if grant and grant.templates != "*":
            return Cell("restricted", grant.templates)
        case str(), Permissions(training=grant) if grant and argument in DEFAULTS:
            values = grant.values(argument)
            if values is not None:
                return Cell("locked" if argument in grant.lock else "restricted", values)
            return Cell("open")
        case _:
            return Cell("open")


def page() -> str:
    """The page with the table, as Markdown."""
    head = _INTRODUCTION.format(
        columns=" | ".join(COLUMNS), rule="|".join(["---"] * (2 + len(COLUMNS)))
    )
    return head + "".join(_line(op, argument) for op, argument in rows()) + _REMARKS


def _line(op: str, argument: str | None) -> str:
    cells = [str(cell(permissions, op, argument)) for permissions in COLUMNS.values()]
    shown = f"`{argument}`" if argument else ""
    return f"| `{op}` | {' | '.join([shown, *cells])} |\n"


def _said(value: Json) -> str:
    if value in (MODEL, BENCHMARK, HARNESS):
        return str(value)
    if value == CHECKPOINTS:
        return "the run's checkpoints"
    return "none" if value is None or value == {} else f"`{value}`".lower()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
