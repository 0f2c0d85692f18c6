"""What the exceptions of the `e2b` SDK mean: whose fault they are, and what may have happened."""

from rsigym.platform.errors import BadCall, Failure, ServiceFailure

__all__ = ["failure_of", "is_gone", "may_exist"]

_REQUEST_FAULTS = range(400, 500)


def failure_of(error: Exception) -> Failure:
    """Whose fault it is, in the server's words."""
    from e2b import exceptions as e2b

    match error:
        case e2b.AuthenticationException():
            return ServiceFailure(
                f"the E2B server refuses the platform's key (is E2B_API_KEY right?): {error}",
                side="provider",
            )
        case e2b.InvalidArgumentException() | e2b.NotFoundException() | e2b.TemplateException():
            return BadCall(str(error))
        case e2b.NotEnoughSpaceException():
            return ServiceFailure(f"the sandbox's disk is full: {error}", side="sandbox")
        case e2b.SandboxException() if _status(error) in (400, 404, 422):
            return BadCall(str(error))
        case _:
            return ServiceFailure(
                f"the E2B server failed: {type(error).__name__}: {error}", side="provider"
            )


def is_gone(error: Exception) -> bool:
    """Whether it says that there is no such sandbox any more."""
    from e2b import SandboxNotFoundException
    from e2b.exceptions import SandboxNotRunningException

    return isinstance(error, SandboxNotFoundException | SandboxNotRunningException)


def may_exist(error: BaseException) -> bool:
    """Whether a create that ended so may have made a sandbox all the same."""
    import httpx

    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return False
    return _status(error) not in _REQUEST_FAULTS


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error that the server answered."""
    from e2b import AuthenticationException

    if isinstance(error, AuthenticationException):
        return 401
    return getattr(error, "status_code", None)
