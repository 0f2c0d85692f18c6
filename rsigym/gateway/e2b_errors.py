"""What the E2B proxy answers when it does not do what was asked.

Everything is JSON in E2B's own form: the SDK fails on anything else. It repeats 429, 502, 503 and
504 by itself, so what would only be refused again says `Should-Retry: false`.
"""

from typing import TYPE_CHECKING

from rsigym.platform.errors import BadCall, BudgetExhausted, Failure, Refused

if TYPE_CHECKING:
    from starlette.responses import JSONResponse

__all__ = ["Refusal", "Unreachable", "answer", "refusal_of"]


class Refusal(Exception):
    """An answer other than what was asked for.

    Args:
        retry: Whether repeating the same request can help.
    """

    def __init__(self, status: int, message: str, *, retry: bool = False):
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry = retry


class Unreachable(Refusal):
    """The hosted service gave no answer that could be understood.

    Attributes:
        delivered: Whether it may have done what it was asked.
    """

    def __init__(self, message: str, *, delivered: bool):
        super().__init__(502, message, retry=True)
        self.delivered = delivered


def refusal_of(failure: Failure) -> Refusal:
    """How a failure of the pipeline is told in HTTP."""
    match failure:
        case BadCall():
            status = 400
        case BudgetExhausted():
            status = 402
        case Refused():
            status = 403
        case _:
            status = 502
    return Refusal(status, failure.message)


def answer(refusal: Refusal) -> "JSONResponse":
    """E2B's error object."""
    from starlette.responses import JSONResponse

    headers = {} if refusal.retry else {"Should-Retry": "false"}
    body = {"code": refusal.status, "message": refusal.message}
    return JSONResponse(body, refusal.status, headers)
