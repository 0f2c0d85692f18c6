"""What the generated tasks may say: one JSON file a benchmark, with a table for each split."""

import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["table"]


@cache
def table(benchmark: str) -> dict[str, Any]:
    """The tables of a benchmark by split, "development" and "official"."""
    file = Path(__file__).with_name(f"{benchmark}.json")
    return json.loads(file.read_text(encoding="utf-8"))
