"""The Gymnasium spaces that rsigym adds: structured calls, bounded text, bounded JSON."""

from rsigym.spaces.call_space import CallSpace
from rsigym.spaces.json_value import JsonValue
from rsigym.spaces.text import Unicode

__all__ = ["CallSpace", "JsonValue", "Unicode"]
