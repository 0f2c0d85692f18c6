"""Routes of training: create a model, forward_backward, optim_step, unload.

A request about a model takes its place in the model's order before its content is looked at: one
that turns out to be wrong fails in its turn, and those behind it are not left waiting.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rsigym.local.tinker import wire
from rsigym.local.tinker.bodies import CreateModel, ModelRequest, OptimStep, parse
from rsigym.local.tinker.checkpoints import Run
from rsigym.local.tinker.engines import result_of
from rsigym.local.tinker.futures import Answer, json_answer
from rsigym.local.tinker.refusal import Refusal
from rsigym.local.tinker.sessions import Session, TrainingModel
from rsigym.local.tinker.state import State, state_of

if TYPE_CHECKING:
    from rsigym.local.tinker.engine import Engine

__all__ = ["ROUTES", "in_turn", "new_model", "promised"]


def promised(session: Session, request_id: str, work: Callable[[], Awaitable[Answer]]) -> Response:
    """Promise `work`, unless it is promised already."""
    session.promises.make(request_id, work)
    return JSONResponse({"request_id": request_id})


def in_turn(model: TrainingModel, seq_id: int, work: Callable[[], Awaitable[Answer]]) -> Response:
    """Promise `work` as number `seq_id` of the model, unless that number was here before."""
    if seq_id < 1:
        raise Refusal(400, f"seq_id must be 1 or more, not {seq_id}")

    async def turn() -> Answer:
        async with model.turns.turn(seq_id):
            return await work()

    request_id = f"{model.id}:{seq_id}"
    if model.turns.admit(seq_id):
        model.session.promises.make(request_id, turn)
    return JSONResponse({"request_id": request_id, "model_id": model.id})


@asynccontextmanager
async def new_model(state: State, session: Session, run: Run) -> "AsyncIterator[Engine]":
    """The engine in which the block makes the adapter `run.id`; then the model is open."""
    engine = await state.engines.get(run.base_model)
    try:
        yield engine
    except BaseException:
        # The client may be gone, or its session over, while the engine still works on it.
        engine.drop(run.id)
        raise
    state.store.open_run(run)
    session.models[run.id] = TrainingModel(
        run.id, session, run.base_model, run.lora["rank"], engine
    )


async def _create_model(request: Request) -> Response:
    state = state_of(request)
    body = parse(CreateModel, await request.body())
    session = state.sessions.of(body.session_id)
    state.engines.facts(body.base_model)
    body.optimizer_config.require_adam()
    lora = body.lora()
    model_id = f"{session.id}:train:{body.model_seq_id}"
    run = Run(model_id, body.base_model, asdict(lora), time.time(), body.user_metadata)

    async def work() -> Answer:
        async with new_model(state, session, run) as engine:
            await result_of(engine.create(model_id, lora))
        return json_answer({"type": "create_model", "model_id": model_id})

    return promised(session, f"{model_id}:create", work)


async def _get_info(request: Request) -> Response:
    state = state_of(request)
    model = state.sessions.model(parse(ModelRequest, await request.body()).model_id)
    facts = state.engines.facts(model.base_model)
    data = {
        "arch": facts.architecture,
        "model_name": model.base_model,
        "tokenizer_id": str(facts.folder),
    }
    return JSONResponse(
        {
            "type": "get_info",
            "model_id": model.id,
            "model_name": model.base_model,
            "is_lora": True,
            "lora_rank": model.rank,
            "model_data": data,
        }
    )


async def _unload_model(request: Request) -> Response:
    sessions = state_of(request).sessions
    model = sessions.model(parse(ModelRequest, await request.body()).model_id)

    async def work() -> Answer:
        sessions.unload(model)
        return json_answer({"type": "unload_model", "model_id": model.id})

    return promised(model.session, f"{model.id}:unload", work)


async def _forward_backward(request: Request) -> Response:
    message = wire.parse_pass(await request.body())
    model = state_of(request).sessions.model(message.model_id)
    run = model.engine.forward if message.forward_only else model.engine.forward_backward

    async def work() -> Answer:
        data, config = wire.to_data(message), wire.loss_config(message)
        return wire.pass_answer(await result_of(run(model.id, data, message.loss_fn, config)))

    return in_turn(model, message.seq_id, work)


async def _optim_step(request: Request) -> Response:
    raw = await request.body()
    envelope = parse(ModelRequest, raw)
    model = state_of(request).sessions.model(envelope.model_id)

    async def work() -> Answer:
        adam = parse(OptimStep, raw).adam()
        return json_answer({"metrics": await result_of(model.engine.optim_step(model.id, adam))})

    return in_turn(model, envelope.seq_id, work)


ROUTES = [
    Route("/create_model", _create_model, methods=["POST"]),
    Route("/get_info", _get_info, methods=["POST"]),
    Route("/unload_model", _unload_model, methods=["POST"]),
    Route("/forward_backward", _forward_backward, methods=["POST"]),
    Route("/optim_step", _optim_step, methods=["POST"]),
]
