"""Routes of a client's life: flags, capabilities, sessions, heartbeats, promised results."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rsigym.local.tinker.bodies import FutureRequest, SessionRequest, parse
from rsigym.local.tinker.state import state_of

__all__ = ["ROUTES"]

# The SDK gives a poll 45 s.
LONG_POLL_S = 30.0


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _client_config(_request: Request) -> Response:
    """The SDK's own defaults are right for a server this near."""
    return JSONResponse({})


async def _dynamic_config(_request: Request) -> Response:
    """Abandoned samples are cancelled at once: they hold up others on a small machine."""
    return JSONResponse({"sample_cancel_enabled": True})


async def _capabilities(request: Request) -> Response:
    models = [
        {
            "model_name": name,
            "max_context_length": facts.context,
            "trainable": True,
            "sampleable": True,
        }
        for name, facts in state_of(request).engines.models.items()
    ]
    return JSONResponse({"supported_models": models})


async def _telemetry(_request: Request) -> Response:
    return JSONResponse({"status": "accepted"})


async def _create_session(request: Request) -> Response:
    session = state_of(request).sessions.open()
    return JSONResponse({"type": "create_session", "session_id": session.id})


async def _heartbeat(request: Request) -> Response:
    body = parse(SessionRequest, await request.body())
    state_of(request).sessions.of(body.session_id)
    return JSONResponse({"type": "session_heartbeat"})


async def _finish(request: Request) -> Response:
    sessions = state_of(request).sessions
    sessions.end(sessions.of(request.path_params["session_id"]))
    return JSONResponse({})


async def _retrieve(request: Request) -> Response:
    """Holds the poll until the result is there; 408 is what the SDK polls again on, silently."""
    body = parse(FutureRequest, await request.body())
    promises = state_of(request).sessions.of(body.request_id).promises
    answer = await promises.wait(body.request_id, LONG_POLL_S)
    if answer is None:
        pending = {"type": "try_again", "request_id": body.request_id, "queue_state": "active"}
        return JSONResponse(pending, 408)
    return Response(answer.body, media_type=answer.media_type)


async def _cancel(request: Request) -> Response:
    body = parse(FutureRequest, await request.body())
    state_of(request).sessions.of(body.request_id).promises.cancel(body.request_id)
    return JSONResponse({})


ROUTES = [
    Route("/healthz", _healthz),
    Route("/client/config", _client_config, methods=["POST"]),
    Route("/client/dynamic_config", _dynamic_config, methods=["POST"]),
    Route("/get_server_capabilities", _capabilities),
    Route("/telemetry", _telemetry, methods=["POST"]),
    Route("/create_session", _create_session, methods=["POST"]),
    Route("/session_heartbeat", _heartbeat, methods=["POST"]),
    Route("/sessions/{session_id}/finish", _finish, methods=["POST"]),
    Route("/retrieve_future", _retrieve, methods=["POST"]),
    Route("/cancel_future", _cancel, methods=["POST"]),
]
