"""Routes of sampling: open a sampler on a base model or a checkpoint, and sample from it."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rsigym.local.tinker import wire
from rsigym.local.tinker.bodies import CreateSamplingSession, Sample, parse
from rsigym.local.tinker.engines import result_of
from rsigym.local.tinker.futures import Answer
from rsigym.local.tinker.refusal import Refusal
from rsigym.local.tinker.sessions import Sampler
from rsigym.local.tinker.state import State, state_of

__all__ = ["ROUTES"]


async def _create_sampling_session(request: Request) -> Response:
    state = state_of(request)
    body = parse(CreateSamplingSession, await request.body())
    session = state.sessions.of(body.session_id)
    sampler_id = f"{session.id}:sample:{body.sampling_session_seq_id}"
    if sampler_id not in session.samplers:
        session.samplers[sampler_id] = _sampler(state, sampler_id, body)
    return JSONResponse({"type": "create_sampling_session", "sampling_session_id": sampler_id})


def _sampler(state: State, sampler_id: str, body: CreateSamplingSession) -> Sampler:
    if body.model_path is None:
        if body.base_model is None:
            raise Refusal(400, "give a base_model or a model_path to sample from")
        state.engines.facts(body.base_model)
        return Sampler(sampler_id, body.base_model, None, None)
    checkpoint = state.store.find(body.model_path, "sampler_weights")
    base_model = state.store.run(checkpoint.run_id).base_model
    if body.base_model not in (None, base_model):
        raise Refusal(400, f"{body.model_path} adapts {base_model}, not {body.base_model}")
    state.engines.facts(base_model)
    return Sampler(sampler_id, base_model, body.model_path, checkpoint.folder)


async def _get_sampler(request: Request) -> Response:
    sampler = state_of(request).sessions.sampler(request.path_params["sampler_id"])
    return JSONResponse(
        {
            "sampler_id": sampler.id,
            "base_model": sampler.base_model,
            "model_path": sampler.path,
        }
    )


async def _asample(request: Request) -> Response:
    state = state_of(request)
    body = parse(Sample, await request.body())
    body.require_offered()
    sampler = state.sessions.sampler(body.sampling_session_id)

    async def work() -> Answer:
        engine = await state.engines.get(sampler.base_model)
        spec = body.spec(state.engines.facts(sampler.base_model))
        result = await result_of(engine.sample(spec, sampler.folder))
        return wire.sample_answer(result, scored=body.prompt_logprobs_last_n)

    request_id = f"{sampler.id}:{body.seq_id}"
    state.sessions.of(sampler.id).promises.make(request_id, work)
    sequence_ids = [f"{request_id}:{index}" for index in range(body.num_samples)]
    return JSONResponse({"request_id": request_id, "sample_sequence_ids": sequence_ids})


ROUTES = [
    Route("/create_sampling_session", _create_sampling_session, methods=["POST"]),
    Route("/samplers/{sampler_id}", _get_sampler),
    Route("/asample", _asample, methods=["POST"]),
]
