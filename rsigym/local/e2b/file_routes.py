"""`GET` and `POST /files`: whole files in and out of a sandbox, streamed."""

import os
from collections.abc import AsyncIterator
from io import FileIO
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from rsigym.local.e2b.content import Sink, gunzipped, gzipped, pieces
from rsigym.local.e2b.entries import written
from rsigym.local.e2b.errors import ApiError, file_errors
from rsigym.local.e2b.make import LIMITS
from rsigym.local.e2b.multipart import parts
from rsigym.local.e2b.paths import home_path
from rsigym.local.sandbox.limits import MIB

if TYPE_CHECKING:
    from rsigym.local.sandbox import Sandbox

__all__ = ["read_file", "write_files"]


async def read_file(request: Request, sandbox: "Sandbox") -> Response:
    """The file that `path` names."""
    with file_errors():
        fd = await sandbox.open(home_path(request.query_params.get("path", "")), "r")
    file = FileIO(fd)  # closed with the last reference, if the answer is never sent
    size = os.fstat(fd).st_size
    headers = {"content-type": "application/octet-stream", "vary": "Accept-Encoding"}
    # The SDK asks for gzip alone when its caller wants it; clients that could take it as well as
    # anything else are on this machine, where packing costs more than it saves.
    if request.headers.get("accept-encoding", "").strip().lower() == "gzip":
        packed = gzipped(pieces(file, size))
        return StreamingResponse(packed, headers={**headers, "content-encoding": "gzip"})
    return StreamingResponse(pieces(file, size), headers={**headers, "content-length": str(size)})


async def write_files(request: Request, sandbox: "Sandbox") -> Response:
    """Writes the body, or each file of a multipart body, and answers what was written.

    Args:
        request: `path` names the file, or the single part; parts also name themselves.
        sandbox: Where to.
    """
    if any(name.startswith("x-metadata-") for name in request.headers):
        raise ApiError(501, "the local E2B server keeps no metadata of files")
    body: AsyncIterator[bytes] = request.stream()
    if request.headers.get("content-encoding", "identity").lower() == "gzip":
        body = gunzipped(body)
    most = None if LIMITS.file_mb is None else LIMITS.file_mb * MIB
    content_type = request.headers.get("content-type", "")
    path = request.query_params.get("path")
    with file_errors():
        if content_type.startswith("multipart/"):
            answer = await _write_parts(parts(content_type, body), path, sandbox, most)
        elif path is None:
            raise ApiError(400, "name the file to write: ?path=…")
        else:
            answer = [await _write_body(body, home_path(path), sandbox, most)]
    return JSONResponse(answer)


async def _write_body(
    body: AsyncIterator[bytes], path: str, sandbox: "Sandbox", most: int | None
) -> dict[str, Any]:
    sink = Sink(await sandbox.open(path, "w"), most)
    try:
        async for piece in body:
            await sink.write(piece)
        await sink.finish()
    finally:
        sink.close()
    return written(path)


async def _write_parts(
    events: AsyncIterator[tuple[str, bytes]],
    path: str | None,
    sandbox: "Sandbox",
    most: int | None,
) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = []
    sink: Sink | None = None
    try:
        async for kind, data in events:
            if kind == "file":
                if sink is not None:  # a part that names itself twice
                    sink.close()
                target = home_path(path if path is not None else data.decode())
                sink = Sink(await sandbox.open(target, "w"), most)
                answer.append(written(target))
            elif sink is not None and kind == "data":
                await sink.write(data)
            elif sink is not None:
                await sink.finish()
                sink.close()
                sink = None
    finally:
        if sink is not None:
            sink.close()
    return answer
