"""`rsigym index`: the RSI-Index of one or several results."""

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from rsigym.commands.declare import Subparsers, declare
from rsigym.commands.tables import table
from rsigym.platform.errors import OperatorError

__all__ = ["add_to"]

_EXAMPLES = """\
  rsigym index result.json
  rsigym index runs/*/result.json --json
"""

_ALIKE = ("track", "offline", "protocol", "backend")
"""What results must share for their combination to mean something."""


def add_to(commands: Subparsers) -> None:
    summary = "show the RSI-Index of results, and of several the one they have together"
    parser = declare(commands, "index", _work, summary, _EXAMPLES)
    parser.add_argument(
        "results", metavar="RESULT.json", type=Path, nargs="+", help="a result, or its run folder"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def _work(arguments: argparse.Namespace) -> int:
    results = [_read(path) for path in arguments.results]
    _require_alike(results, arguments.results)
    combined = _combined(results)
    if arguments.json:
        print(json.dumps({"results": [_row(each) for each in results], **combined}, indent=2))
        return 0
    print(table([("run", "benchmark", "initial", "submitted", "RSI-Index"), *_lines(results)]))
    if len(results) > 1:
        print(f"\nRSI-Index of {len(results)} results: {combined['rsi_index']:.4f}")
    return 0


def _read(path: Path) -> dict[str, Any]:
    """
    Raises:
        OperatorError: It is no result, or one without an index; the message says why.
    """
    file = path / "result.json" if path.is_dir() else path
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OperatorError(f"{file} cannot be read as a result: {error}") from None
    if not isinstance(result, dict) or "rsi_index" not in result:
        raise OperatorError(f"{file} is not a result of rsigym: it has no rsi_index")
    if result["rsi_index"] is None:
        raise OperatorError(f"{file} is not complete: {_why(result)}")
    return result


def _why(result: dict[str, Any]) -> str:
    if result["ending"] != "submitted":
        return f"the run ended as {result['ending']}, without a submission for every benchmark"
    return "the initial score of a benchmark is perfect already, so that no index is defined"


def _require_alike(results: list[dict[str, Any]], paths: list[Path]) -> None:
    first = results[0]
    for result, path in zip(results, paths, strict=True):
        for name in _ALIKE:
            if result[name] != first[name]:
                raise OperatorError(
                    f"results of different kinds have no index together: {name} is "
                    f"{first[name]!r} in {paths[0]} and {result[name]!r} in {path}"
                )


def _combined(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean over benchmarks; a benchmark that was run several times counts once, by its mean."""
    gains: dict[str, list[float]] = {}
    for result in results:
        for name, gain in _gains(result).items():
            gains.setdefault(name, []).append(gain)
    by_benchmark = {name: fmean(each) for name, each in gains.items()}
    return {"rsi_index": fmean(by_benchmark.values()), "by_benchmark": by_benchmark}


def _gains(result: dict[str, Any]) -> dict[str, float]:
    """The index of each benchmark by itself."""
    from rsigym import rsi_index

    gains: dict[str, float] = {}
    for name, outcome in result["benchmarks"].items():
        submitted, initial = (outcome[each]["score"] for each in ("submitted", "initial"))
        gain = rsi_index({name: submitted}, {name: initial})
        if gain is not None:
            gains[name] = gain
    return gains


def _row(result: dict[str, Any]) -> dict[str, Any]:
    shared = {name: result[name] for name in ("run", "experiment", *_ALIKE, "rsi_index")}
    scores = {
        name: {each: outcome[each]["score"] for each in ("initial", "submitted")}
        for name, outcome in result["benchmarks"].items()
    }
    return {**shared, "benchmarks": scores}


def _lines(results: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A line for each benchmark of each result; the run and its index stand on the first."""
    lines: list[tuple[str, ...]] = []
    for result in results:
        run, index = result["run"], f"{result['rsi_index']:.4f}"
        for name, outcome in result["benchmarks"].items():
            scores = (f"{outcome[each]['score']:.4f}" for each in ("initial", "submitted"))
            lines.append((run, name, *scores, index))
            run, index = "", ""
    return lines
