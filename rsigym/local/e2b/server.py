"""The application: which plane a request belongs to, and who may make it."""

import asyncio

from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rsigym.local.e2b.access import check_token, check_user, is_same, is_signed
from rsigym.local.e2b.control import Control
from rsigym.local.e2b.envd import RPC_PATHS, Envd
from rsigym.local.e2b.errors import ApiError, error_answer
from rsigym.local.e2b.file_routes import read_file, write_files
from rsigym.local.e2b.make import Maker
from rsigym.local.e2b.sandboxes import Sandboxes
from rsigym.local.e2b.settings import Settings
from rsigym.platform.errors import ServiceFailure

__all__ = ["E2BApp"]

_ENVD_PORT = "49983"
_DATA_PATHS = ("/files", "/health")


class E2BApp:
    """Both planes on one port, as an ASGI application.

    The control plane takes the server's key. The data plane takes the token of the sandbox that
    the request names, or, for files, an URL that was signed with it.
    """

    def __init__(self, settings: Settings, api_key: str):
        self._settings, self._api_key = settings, api_key
        files = Route("/files", self._files, methods=["GET", "POST"])
        self._data = _application([files, Route("/health", self._health)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["path"].startswith(RPC_PATHS):
            await self._rpc(scope, receive, send)
        elif scope["path"] in _DATA_PATHS:
            await self._data(scope, receive, send)
        else:
            await self._authorized(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        maker = Maker(self._settings)
        self._sandboxes = Sandboxes(self._settings, maker)
        self._control = _application(Control(self._sandboxes).routes())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.gather(self._sandboxes.close(), maker.close())
        await send({"type": "lifespan.shutdown.complete"})

    async def _authorized(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check_token(Headers(scope=scope).get("x-api-key"), self._api_key, "API key")
        except ApiError as error:
            await error_answer(error)(scope, receive, send)
        else:
            await self._control(scope, receive, send)

    async def _rpc(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            envd = await self._named(headers)
            check_token(headers.get("x-access-token"), envd.token, "access token")
            check_user(headers, QueryParams())
        except (ApiError, ServiceFailure) as error:
            await error_answer(error)(scope, receive, send)
        else:
            await envd.rpc(scope, receive, send)

    async def _health(self, request: Request) -> Response:
        await self._named(request.headers)
        return Response(status_code=204)

    async def _files(self, request: Request) -> Response:
        envd = await self._for_files(request)
        check_user(request.headers, request.query_params)
        if request.method == "POST":
            return await write_files(request, envd.sandbox)
        return await read_file(request, envd.sandbox)

    async def _for_files(self, request: Request) -> Envd:
        """The sandbox that a token or a signature is for; a signed URL names none."""
        operation = "write" if request.method == "POST" else "read"
        if "signature" not in request.query_params:
            envd = await self._named(request.headers)
            check_token(request.headers.get("x-access-token"), envd.token, "access token")
            return envd
        for live in self._sandboxes:
            if is_signed(request.query_params, operation, live.envd.token):
                return (await self._sandboxes.running(live.id)).envd
        raise ApiError(401, "the signature is wrong, or its sandbox is gone")

    async def _named(self, headers: Headers) -> Envd:
        """The sandbox that a request names; older SDKs name it by its token alone at times."""
        sandbox_id = headers.get("e2b-sandbox-id") or self._by_token(headers)
        port = headers.get("e2b-sandbox-port", _ENVD_PORT)
        live = await self._sandboxes.running(sandbox_id)
        if port != _ENVD_PORT:
            raise ApiError(502, f"The sandbox {sandbox_id} is running but port is not open: {port}")
        return live.envd

    def _by_token(self, headers: Headers) -> str | None:
        given = headers.get("x-access-token")
        return next((it.id for it in self._sandboxes if is_same(given, it.envd.token)), None)


def _application(routes: list[Route]) -> Starlette:
    kinds = (ApiError, HTTPException, ServiceFailure, ClientDisconnect, Exception)
    return Starlette(routes=routes, exception_handlers=dict.fromkeys(kinds, _answer_error))


def _answer_error(request: Request, error: Exception) -> Response:
    return error_answer(error)
