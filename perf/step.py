"""`env.step` on a free operation, through the whole pipeline, beside the bare reading of a file.

Run: python perf/step.py [--json] [--steps N]
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

CALLS: dict[str, dict[str, Any]] = {
    "budget.balance": {"op": "budget.balance", "args": {}},
    "workspace.read": {"op": "workspace.read", "args": {"path": "harness/run.sh"}},
    "workspace.list": {"op": "workspace.list", "args": {}},
    "an unknown operation": {"op": "budget.print", "args": {}},
}


def milliseconds(work: Callable[[], object], times: int) -> list[float]:
    """How long each of many calls takes."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1000)
    return taken


def measure(steps: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as runs:
        env = gym.make("rsigym:RSIGym/Joint-Integers-v0", run_dir=runs, sandbox="auto")
        env.reset(seed=0)
        harness = next(Path(runs).glob("*/workspace/harness/run.sh"))
        work: dict[str, Callable[[], object]] = {
            name: lambda call=call: env.step(call) for name, call in CALLS.items()
        }
        work["(reading a file)"] = harness.read_text
        rows = {name: milliseconds(each, steps) for name, each in work.items()}
        env.close()
    return {
        name: {"p50_ms": statistics.median(taken), "p99_ms": sorted(taken)[int(len(taken) * 0.99)]}
        for name, taken in rows.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--steps", type=int, default=500, help="calls of each kind")
    options = parser.parse_args()
    rows = measure(options.steps)
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'env.step':24}{'p50 ms':>10}{'p99 ms':>10}   (target: 2 ms)")
    for name, row in rows.items():
        print(f"{name:24}{row['p50_ms']:10.3f}{row['p99_ms']:10.3f}")


if __name__ == "__main__":
    main()
