"""Routes of downloads: export an adapter, list links to its files, and follow one."""

import time
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from rsigym.local.tinker.bodies import ExportWeights, ModelRequest, parse
from rsigym.local.tinker.checkpoints import Checkpoint
from rsigym.local.tinker.engines import result_of
from rsigym.local.tinker.futures import Answer, json_answer
from rsigym.local.tinker.refusal import Refusal
from rsigym.local.tinker.routes.training import in_turn
from rsigym.local.tinker.state import state_of

__all__ = ["ROUTES"]

LINK_S = 3600


async def _save_weights_external(request: Request) -> Response:
    raw, state = await request.body(), state_of(request)
    envelope = parse(ModelRequest, raw)
    model = state.sessions.model(envelope.model_id)

    async def work() -> Answer:
        body = parse(ExportWeights, raw)
        body.require_offered()
        with state.store.draft(
            model.id, "external_weights", body.path, ttl_seconds=body.ttl_seconds
        ) as (folder, path):
            await result_of(model.engine.save(model.id, folder, optimizer=False))
        return json_answer({"type": "save_weights_external", "path": path})

    return in_turn(model, envelope.seq_id, work)


def _export(request: Request) -> Checkpoint:
    params = request.path_params
    return state_of(request).store.get(params["run_id"], f"external_weights/{params['name']}")


async def _links(request: Request) -> Response:
    export, expires = _export(request), int(time.time()) + LINK_S
    links, base = state_of(request).links, str(request.base_url).rstrip("/")
    folder = f"/api/v1/downloads/{export.run_id}/{export.name}"
    urls = {name: base + links.sign(f"{folder}/{name}", expires) for name in export.files}
    return JSONResponse({"urls": urls, "expires": datetime.fromtimestamp(expires, UTC).isoformat()})


async def _download(request: Request) -> Response:
    export, name = _export(request), request.path_params["file"]
    if name not in export.files:
        raise Refusal(404, f"{export.path} has no file {name!r}; it has {', '.join(export.files)}")
    return FileResponse(export.files[name], media_type="application/octet-stream")


_EXPORT = "/training_runs/{run_id}/checkpoints/external_weights/{name}"

ROUTES = [
    Route("/save_weights_external", _save_weights_external, methods=["POST"]),
    Route(f"{_EXPORT}/external_weights_urls", _links),
    Route("/downloads/{run_id}/{name}/{file}", _download),
]
