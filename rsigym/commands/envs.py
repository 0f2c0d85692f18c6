"""`rsigym envs`: the ids that can be run."""

import argparse
import json
from typing import Any

from rsigym.commands.declare import Subparsers, declare
from rsigym.commands.tables import table

__all__ = ["add_to"]

_EXAMPLES = """\
  rsigym envs
  rsigym envs --json
"""


def add_to(commands: Subparsers) -> None:
    parser = declare(commands, "envs", _work, "list the environments", _EXAMPLES)
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def _work(arguments: argparse.Namespace) -> int:
    rows = _rows()
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    head = ("id", "track", "benchmarks", "budget", "backend")
    lines = [
        (
            row["id"],
            ", ".join([row["track"] or "open", *(["Offline"] if row["offline"] else [])]),
            ", ".join(row["benchmarks"]),
            f"${row['budget_usd']:g}",
            row["backend"],
        )
        for row in rows
    ]
    print(table([head, *lines]))
    return 0


def _rows() -> list[dict[str, Any]]:
    import gymnasium as gym

    from rsigym.envs.experiment import Experiment

    rows: list[dict[str, Any]] = []
    for env_id, spec in gym.registry.items():
        if spec.namespace == "RSIGym":
            experiment = Experiment.of(**spec.kwargs)
            rows.append(
                {
                    "id": env_id,
                    "track": experiment.track,
                    "offline": experiment.offline,
                    "benchmarks": list(experiment.benchmarks),
                    "budget_usd": experiment.budget_usd,
                    "backend": experiment.backend,
                }
            )
    return rows
