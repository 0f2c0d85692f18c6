"""What the two planes answer when something is wrong, in the shapes that the SDK understands."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from rsigym.platform.errors import ServiceFailure

__all__ = ["ApiError", "error_answer", "file_errors", "rpc_errors"]

_CODES = {
    errno.ENOENT: Code.NOT_FOUND,
    errno.EEXIST: Code.ALREADY_EXISTS,
    errno.EACCES: Code.PERMISSION_DENIED,
    errno.EPERM: Code.PERMISSION_DENIED,
    errno.EROFS: Code.PERMISSION_DENIED,
    errno.ENOSPC: Code.FAILED_PRECONDITION,
    errno.EDQUOT: Code.FAILED_PRECONDITION,
    errno.EPIPE: Code.FAILED_PRECONDITION,
}
_STATUSES = {
    errno.ENOENT: 404,
    errno.EACCES: 403,
    errno.EPERM: 403,
    errno.EROFS: 403,
    # The SDK's NotEnoughSpaceException.
    errno.ENOSPC: 507,
    errno.EDQUOT: 507,
    errno.EFBIG: 507,
}


class ApiError(Exception):
    """An answer other than success.

    Args:
        status: The HTTP status.
        message: One sentence for the caller.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = message


def error_answer(error: Exception) -> JSONResponse:
    """The answer for whatever went wrong: the SDK fails on one that is not JSON.

    It is meant: without the header the SDK would repeat a request that was refused.
    """
    if isinstance(error, HTTPException):
        error = ApiError(error.status_code, error.detail)
    elif isinstance(error, ServiceFailure):
        error = ApiError(500, error.message)
    elif not isinstance(error, ApiError):
        error = ApiError(500, "the local E2B server failed; its log says how")
    return JSONResponse(
        {"code": error.status, "message": error.message},
        status_code=error.status,
        headers={"Should-Retry": "false"},
    )


@contextmanager
def rpc_errors() -> Iterator[None]:
    """Turns what the runtime raises into the Connect protocol's errors."""
    try:
        yield
    except OSError as error:
        code = _CODES.get(error.errno or 0, Code.INVALID_ARGUMENT)
        raise ConnectError(code, _said(error)) from error
    except ValueError as error:
        raise ConnectError(Code.INVALID_ARGUMENT, str(error)) from error
    except ServiceFailure as error:
        raise ConnectError(Code.UNAVAILABLE, error.message) from error


@contextmanager
def file_errors() -> Iterator[None]:
    """The same for the routes that carry whole files, which answer with HTTP statuses."""
    try:
        yield
    except OSError as error:
        raise ApiError(_STATUSES.get(error.errno or 0, 400), _said(error)) from error
    except ValueError as error:
        raise ApiError(400, str(error)) from error
    except ServiceFailure as error:
        # The SDK asks for the sandbox's health, and so learns whether it is gone.
        raise ApiError(502, error.message) from error


def _said(error: OSError) -> str:
    said = error.strerror or "refused"
    return f"{said}: {error.filename}" if error.filename else said
