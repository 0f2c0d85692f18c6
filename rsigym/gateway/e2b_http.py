"""The E2B proxy's requests and answers: who asks, what is read of it, and that all is JSON."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from rsigym.gateway.e2b_errors import Refusal, answer, refusal_of
from rsigym.gateway.e2b_metadata import stripped
from rsigym.gateway.e2b_tenant import Tenant, Tenants
from rsigym.gateway.e2b_upstream import Reply
from rsigym.platform.errors import Failure

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Handler", "answering", "not_offered", "read_body"]

_log = logging.getLogger(__name__)

_MOST_BYTES = 1 << 20

type Handler = Callable[["Request", Tenant], Awaitable[Reply]]
"""Answers a request of a run; a `Refusal` or `Failure` that it raises becomes E2B's error."""


def answering(tenants: Tenants, handler: Handler) -> Callable[["Request"], Awaitable["Response"]]:
    """An endpoint for runs alone."""

    async def handle(request: "Request") -> "Response":
        try:
            tenant = tenants(request.headers.get("x-api-key", ""))
            if tenant is None:
                raise Refusal(401, "this API key is not a key of any run")
            return _response(await handler(request, tenant))
        except Refusal as refusal:
            return answer(refusal)
        except Failure as failure:
            return answer(refusal_of(failure))
        except Exception as error:  # noqa: BLE001 -- the SDK fails on what is not JSON
            _log.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__)
            return answer(Refusal(500, "the platform failed on this request"))

    return handle


async def not_offered(request: "Request", _: Exception) -> "Response":
    """What is said to everything that has no route."""
    message = f"the platform does not support {request.method} {request.url.path}"
    return answer(Refusal(501, message))


async def read_body(request: "Request") -> Mapping[str, Any]:
    """The JSON object that was sent; an empty one for nothing.

    Raises:
        Refusal: It is none, or too large.
    """
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MOST_BYTES:
            raise Refusal(413, f"the request has more than {_MOST_BYTES:,} bytes")
    try:
        body = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Refusal(400, "the body is not a JSON object")
    return body


def _response(reply: Reply) -> "Response":
    from starlette.responses import JSONResponse, Response

    headers = dict(reply.headers)
    if reply.body is None:
        return Response(status_code=reply.status, headers=headers)
    return JSONResponse(_shown(reply.body), reply.status, headers)


def _shown(body: Any) -> Any:
    """A body as a run may see it, whatever the hosted service put into it."""
    match body:
        case dict():
            return stripped(body)
        case list():
            return [_shown(each) for each in body]
        case _:
            return body
