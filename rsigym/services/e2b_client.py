"""An E2B endpoint, hosted or on this machine, through the `e2b` SDK alone.

Nothing starts before it is needed: the endpoint may be a server of this machine that is started by
asking for its address.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rsigym.operations.sandbox import SandboxCreate
from rsigym.platform.errors import BadCall, Failure, ServiceFailure

if TYPE_CHECKING:
    from e2b import AsyncSandbox

__all__ = ["E2BAddress", "E2BClient", "failure_of", "may_exist"]

_TAG = "rsigym.create"
"""The metadata by which a sandbox is found whose creation got no answer."""

_REQUEST_FAULTS = range(400, 500)


class E2BAddress(NamedTuple):
    """Where an E2B endpoint is.

    Attributes:
        api_url: The control plane.
        api_key: Its key.
        sandbox_url: The data plane, where it is not found by the sandbox's own domain.
    """

    api_url: str
    api_key: str
    sandbox_url: str | None = None


class E2BClient:
    """An E2B endpoint. Its coroutines may run on any loop, but each sandbox on one.

    Args:
        endpoint: Where it is now; asked for every sandbox, so that a server that has died is
            started again.
    """

    def __init__(self, endpoint: Callable[[], E2BAddress]):
        self._endpoint = endpoint

    def options(self) -> dict[str, Any]:
        """What the SDK is told for one sandbox. Blocks while a local server starts."""
        address = self._endpoint()
        return {**address._asdict(), "debug": False}

    async def create(
        self, call: SandboxCreate, seconds: int, tag: str, options: dict[str, Any]
    ) -> "AsyncSandbox":
        """A sandbox that its server keeps for so many seconds. Raises what the SDK raises.

        It is asked for once: a create that got no answer may have been done.
        """
        from e2b import AsyncSandbox

        return await AsyncSandbox.create(
            call.template,
            timeout=seconds,
            metadata={_TAG: tag},
            allow_internet_access=call.internet,
            retries=0,
            **options,
        )

    async def find(self, tag: str, options: dict[str, Any]) -> list[str]:
        """The ids of the sandboxes that were created with a tag."""
        from e2b import AsyncSandbox, SandboxQuery

        pages = AsyncSandbox.list(SandboxQuery(metadata={_TAG: tag}), **options)
        found: list[str] = []
        while pages.has_next:
            found += [info.sandbox_id for info in await pages.next_items()]
        return found

    async def kill(self, sandbox_id: str, options: dict[str, Any]) -> None:
        """End a sandbox; one that is gone is fine."""
        from e2b import AsyncSandbox

        await AsyncSandbox.kill(sandbox_id, **options)


def may_exist(error: BaseException) -> bool:
    """Whether a create that ended so may have made a sandbox all the same."""
    import httpx

    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return False
    return _status(error) not in _REQUEST_FAULTS


def failure_of(error: Exception) -> Failure:
    """Whose fault an exception of the SDK is, in the server's words."""
    from e2b import exceptions as e2b

    status = _status(error)
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
        case e2b.SandboxException() if status in (400, 404, 422):
            return BadCall(str(error))
        case _:
            return ServiceFailure(
                f"the E2B server failed: {type(error).__name__}: {error}", side="provider"
            )


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error that the server answered."""
    from e2b import AuthenticationException

    if isinstance(error, AuthenticationException):
        return 401
    return getattr(error, "status_code", None)
