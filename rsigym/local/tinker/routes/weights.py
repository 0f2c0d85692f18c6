"""Routes of checkpoints: save for training or for sampling, load, and go on from a saved state."""

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rsigym.local.tinker.bodies import LoadWeights, ModelRequest, SaveWeights, parse
from rsigym.local.tinker.checkpoints import Run
from rsigym.local.tinker.engines import result_of
from rsigym.local.tinker.futures import Answer, json_answer
from rsigym.local.tinker.refusal import Refusal
from rsigym.local.tinker.routes.training import in_turn, new_model, promised
from rsigym.local.tinker.sessions import Sampler, TrainingModel
from rsigym.local.tinker.state import State, state_of

__all__ = ["ROUTES"]


async def _save_weights(request: Request) -> Response:
    raw, state = await request.body(), state_of(request)
    envelope = parse(ModelRequest, raw)
    model = state.sessions.model(envelope.model_id)

    async def work() -> Answer:
        body = parse(SaveWeights, raw)
        with state.store.draft(
            model.id,
            "weights",
            body.path or f"{envelope.seq_id:06}",
            overwrite=body.overwrite,
            ttl_seconds=body.ttl_seconds,
            user_metadata=body.user_metadata,
        ) as (folder, path):
            await result_of(model.engine.save(model.id, folder, optimizer=True))
        return json_answer({"type": "save_weights", "path": path})

    return in_turn(model, envelope.seq_id, work)


async def _save_weights_for_sampler(request: Request) -> Response:
    raw, state = await request.body(), state_of(request)
    envelope = parse(ModelRequest, raw)
    model = state.sessions.model(envelope.model_id)

    async def work() -> Answer:
        body = parse(SaveWeights, raw)
        if body.path is None:
            saved = {"sampling_session_id": await _open_sampler(model, envelope.seq_id, body)}
        else:
            saved = {"path": await _save_for_sampler(state, model, body.path, body)}
        return json_answer({"type": "save_weights_for_sampler", **saved})

    return in_turn(model, envelope.seq_id, work)


async def _save_for_sampler(
    state: State, model: TrainingModel, name: str, body: SaveWeights
) -> str:
    with state.store.draft(
        model.id,
        "sampler_weights",
        name,
        ttl_seconds=body.ttl_seconds,
        user_metadata=body.user_metadata,
    ) as (folder, path):
        await result_of(model.engine.save(model.id, folder, optimizer=False))
    return path


async def _open_sampler(model: TrainingModel, seq_id: int, body: SaveWeights) -> str:
    """Save without a name and open a sampler on it at once.

    An inflight save also moves the samplers of earlier inflight saves on to the new weights.
    """
    if body.sampling_session_seq_id is None:
        raise Refusal(400, "save_weights_for_sampler needs a name or a sampling_session_seq_id")
    session = model.session
    folder = session.scratch / f"{model.id.replace(':', '-')}-{seq_id}"
    await result_of(model.engine.save(model.id, folder, optimizer=False))
    sampler_id = f"{session.id}:sample:{body.sampling_session_seq_id}"
    sampler = Sampler(sampler_id, model.base_model, None, folder)
    session.samplers[sampler_id] = sampler
    if body.kind == "inflight":
        model.inflight.append(sampler)
        for follower in model.inflight:
            follower.folder = folder
    return sampler_id


async def _load_weights(request: Request) -> Response:
    raw, state = await request.body(), state_of(request)
    body = parse(LoadWeights, raw)
    if body.model_id is None:
        return await _create_from(state, body)
    envelope = parse(ModelRequest, raw)
    model = state.sessions.model(envelope.model_id)

    async def work() -> Answer:
        checkpoint = state.store.find(body.path, "weights")
        _require_same_base(state.store.run(checkpoint.run_id), model.base_model)
        load = model.engine.load(model.id, checkpoint.folder, optimizer=body.optimizer)
        await result_of(load)
        return json_answer({"type": "load_weights", "path": body.path, "model_id": model.id})

    return in_turn(model, envelope.seq_id, work)


async def _create_from(state: State, body: LoadWeights) -> Response:
    """A new training model that goes on from a saved state."""
    session = state.sessions.of(body.session_id or "")
    if body.optimizer_config is not None:
        body.optimizer_config.require_adam()
    checkpoint = state.store.find(body.path, "weights")
    origin = state.store.run(checkpoint.run_id)
    _require_same_base(origin, body.base_model or origin.base_model)
    state.engines.facts(origin.base_model)
    model_id = f"{session.id}:train:{body.model_seq_id}"
    run = Run(model_id, origin.base_model, origin.lora, time.time(), body.user_metadata)

    async def work() -> Answer:
        async with new_model(state, session, run) as engine:
            await result_of(engine.load(model_id, checkpoint.folder, optimizer=body.optimizer))
        return json_answer({"type": "load_weights", "path": body.path, "model_id": model_id})

    return promised(session, f"{model_id}:create", work)


def _require_same_base(origin: Run, base_model: str) -> None:
    if origin.base_model != base_model:
        raise Refusal(
            400, f"the checkpoint adapts {origin.base_model}: it cannot be loaded into {base_model}"
        )


ROUTES = [
    Route("/save_weights", _save_weights, methods=["POST"]),
    Route("/save_weights_for_sampler", _save_weights_for_sampler, methods=["POST"]),
    Route("/load_weights", _load_weights, methods=["POST"]),
]
