"""OpenAI's HTTP API over an already listening socket: all that a sandboxed trial can reach.

Which socket a request comes in by says who is asking, so there are no keys. A request whose client
hangs up is given up, and charged at its worst if it was being sampled; an answer that has begun to
be sent, a stream too, has been charged for what it is.
"""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from rsigym.operations.chat import ChatRequest
from rsigym.operations.inference import InferenceChat
from rsigym.operations.json_value import Json
from rsigym.platform.errors import BadCall, BudgetExhausted, Failure, ServiceFailure, TimedOut
from rsigym.platform.evidence import text_of
from rsigym.services.chat_request import parse_chat_request
from rsigym.services.chat_stream import events

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

__all__ = ["Complete", "chat_app", "serve"]

type Complete[R: ChatRequest] = Callable[[R], Awaitable[dict[str, Json]]]

_MOST_BYTES = 16 * 2**20
_CLIENT_GONE = 499
_log = logging.getLogger(__name__)


def chat_app(
    complete: Complete[Any], models: Sequence[str], kind: type[ChatRequest] = InferenceChat
) -> "Starlette":
    """`POST /v1/chat/completions`, `GET /v1/models` and `GET /v1/models/{name}`.

    Args:
        complete: Answers a chat completion; a `Failure` it raises becomes OpenAI's error.
        models: The names that are listed.
        kind: What `complete` takes: a chat of the inference service, or of the rollout service.
    """
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def chat(request: "Request") -> Response:
        try:
            asked = parse_chat_request(await _body(request), kind)
            answer = await _while_connected(request, _answer(complete, asked.request))
        except Failure as failure:
            return _refused(failure)
        except Exception:  # noqa: BLE001 - a bug here must not take a trial's harness with it
            _log.exception("a chat completion failed")
            return _refused(ServiceFailure("the server failed on this request"), 500)
        if answer is None:
            return Response(status_code=_CLIENT_GONE)
        if asked.stream:
            stream = "".join(events(answer, include_usage=asked.include_usage))
            return Response(stream, media_type="text/event-stream")
        return _told(answer)

    async def listed(_: "Request") -> Response:
        return JSONResponse({"object": "list", "data": [_model(name) for name in models]})

    async def one(request: "Request") -> Response:
        name = request.path_params["name"]
        if name in models:
            return JSONResponse(_model(name))
        there = ", ".join(models)
        return _refused(
            BadCall(f"model {name!r} is not there: {there}", code="model_not_found", param="model")
        )

    async def nothing(request: "Request", _: Exception) -> Response:
        served = "POST /v1/chat/completions and GET /v1/models are all that is served here"
        return _refused(BadCall(f"{request.method} {request.url.path}: {served}"), 404)

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", listed),
            Route("/v1/models/{name:path}", one),
        ],
        exception_handlers={404: nothing, 405: nothing},
    )


@asynccontextmanager
async def serve(sock: socket.socket, app: "ASGIApp") -> AsyncIterator[None]:
    """Serve `app` on a listening socket, in the running loop, for the length of the block.

    At its end nobody is listening any more: what is still being answered is cancelled, and the
    socket is closed.
    """
    import uvicorn

    config = uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", log_config=None, access_log=False
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Not `server.serve`: it takes over the process's signals and looks for its end ten times a
    # second, where a trial ends at once.
    await server.startup(sockets=[sock])
    try:
        yield
    finally:
        for listener in server.servers:
            listener.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        if server.server_state.tasks:
            await asyncio.wait(server.server_state.tasks)
        sock.close()


async def _answer[R: ChatRequest](complete: Complete[R], request: R) -> dict[str, Json]:
    return await complete(request)


async def _body(request: "Request") -> object:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise BadCall(f"the request has more than {_MOST_BYTES:,} bytes", status=413)
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadCall(f"the body is not JSON: {error}") from None


async def _while_connected[T](request: "Request", work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, which is cancelled when the client hangs up; then None."""
    working = asyncio.create_task(work)
    listening = asyncio.create_task(_hang_up(request))
    try:
        await asyncio.wait({working, listening}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        listening.cancel()
        await asyncio.wait({working, listening})


async def _hang_up(request: "Request") -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _status(failure: Failure) -> int:
    """The HTTP status. Clients repeat 408, 409, 429 and 5xx: only what may go away gets one."""
    if isinstance(failure, BudgetExhausted):
        return 402
    if isinstance(failure, TimedOut):
        return 504
    if isinstance(failure, BadCall):
        if failure.details.get("code") == "model_not_found":
            return 404
        status = failure.details.get("status")
        return status if isinstance(status, int) else 400
    return 502


def _refused(failure: Failure, status: int | None = None) -> "Response":
    """OpenAI's error. Where repeating the request cannot help, its clients are told not to."""
    code = failure.details.get("code")
    match failure:
        case BudgetExhausted():
            kind, code = "insufficient_quota", "budget_exhausted"
        case BadCall():
            kind = "invalid_request_error"
        case _:
            kind = "server_error"
    error: dict[str, Json] = {
        "message": failure.message,
        "type": kind,
        "param": failure.details.get("param"),
        "code": code,
    }
    again = failure.side == "provider"
    headers = {} if again else {"x-should-retry": "false"}
    return _told({"error": error}, status or _status(failure), headers)


def _told(
    body: dict[str, Json], status: int = 200, headers: Mapping[str, str] | None = None
) -> "Response":
    """JSON, whatever a provider has put into it: an answer that is paid for must arrive."""
    from starlette.responses import Response

    return Response(text_of(body), status, headers, media_type="application/json")


def _model(name: str) -> dict[str, Json]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "rsigym"}
