"""The JSON values that calls and evidence are made of."""

import json

__all__ = ["Json", "json_size"]

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None


def json_size(value: Json) -> int | None:
    """Bytes of a value's compact UTF-8 text; None if it has none."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return len(text.encode())
    except (TypeError, ValueError, RecursionError):
        return None
