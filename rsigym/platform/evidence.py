"""Evidence as an observation can hold it: JSON, and not too much of it."""

import json
import math
from pathlib import Path

from rsigym.operations.json_value import Json, json_size
from rsigym.platform.service import Evidence

__all__ = ["MAX_EVIDENCE", "bounded"]

MAX_EVIDENCE = 64 * 1024
"""Bytes of compact UTF-8 JSON that one observation carries."""


def bounded(evidence: Evidence, overflow: Path) -> Evidence:
    """The evidence itself, or where to read it in pieces if it is too large.

    Numbers that JSON does not have become None, and lone surrogates become question marks.

    Args:
        evidence: What a call answered.
        overflow: A file of the workspace to put evidence in that is too large.
    """
    size = json_size(evidence)
    if size is None:
        evidence = {key: _clean(value) for key, value in evidence.items()}
        size = json_size(evidence)
    if size is not None and size <= MAX_EVIDENCE:
        return evidence
    overflow.parent.mkdir(parents=True, exist_ok=True)
    overflow.write_text(json.dumps(evidence, indent=1), encoding="utf-8")
    path = f"{overflow.parent.name}/{overflow.name}"
    keys: list[Json] = [*evidence]
    return {
        "too_large": f"the answer has {size} bytes: read it in pieces with workspace.read",
        "path": path,
        "keys": keys[:100],
    }


def _clean(value: Json) -> Json:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_clean(each) for each in value]
        case dict():
            return {str(_clean(key)): _clean(each) for key, each in value.items()}
        case _:
            return value
