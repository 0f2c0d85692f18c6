"""What a sandbox uses, in E2B's terms."""

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.datastructures import QueryParams

from rsigym.local.e2b.errors import ApiError
from rsigym.local.e2b.make import LIMITS

if TYPE_CHECKING:
    from rsigym.local.e2b.live import LiveSandbox

__all__ = ["metrics_now"]


async def metrics_now(live: "LiveSandbox", query: QueryParams) -> list[dict[str, Any]]:
    """One sample, taken now: nothing is recorded meanwhile. None, if now is not asked for.

    The share of the processor is the average since the sandbox was started.
    """
    now = datetime.now(UTC)
    if "end" in query and _seconds(query["end"]) + 1 < now.timestamp():
        return []
    usage = await live.envd.sandbox.usage()
    age_s = max((now - live.started_at).total_seconds(), 1e-3)
    return [
        {
            "timestamp": now.isoformat(),
            "timestampUnix": int(now.timestamp()),
            "cpuCount": os.cpu_count() or 1,
            "cpuUsedPct": round(100 * usage.cpu_s / age_s, 2),
            "memUsed": usage.memory_bytes,
            "memTotal": (LIMITS.memory_mb or 0) << 20,
            "memCache": 0,
            "diskUsed": usage.disk_bytes,
            "diskTotal": (LIMITS.disk_mb or 0) << 20,
        }
    ]


def _seconds(given: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise ApiError(400, f"end must be a number of seconds, not {given!r}") from None
