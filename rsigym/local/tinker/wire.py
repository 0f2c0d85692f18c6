"""Tinker's protobuf messages on one side, the engine's plain numpy values on the other."""

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf.message import DecodeError

from rsigym.local.tinker.futures import Answer
from rsigym.local.tinker.refusal import Refusal
from rsigym.local.tinker.specs import Datum, PassResult, Sample, SampleResult

__all__ = ["loss_config", "parse_pass", "pass_answer", "sample_answer", "to_data"]


def _messages() -> ModuleType:
    """The SDK's message classes without the SDK, whose import loads torch and takes seconds."""
    package = importlib.util.find_spec("tinker")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("tinker is not installed: pip install 'rsigym[local]'")
    name = "tinker_public_pb2"
    path = Path(package.origin).parent / "proto" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from tinker.proto import tinker_public_pb2 as pb
else:
    pb = _messages()

_PROTOBUF = "application/x-protobuf"
_RECORD = "ArrayRecord"
# What the SDK reads as "not computed" in a table of likeliest tokens (types/topk_logprobs.py).
_NO_LOGPROB = -99999.0
_DTYPES = {pb.DTYPE_FLOAT32: np.dtype("<f4"), pb.DTYPE_INT64: np.dtype("<i8")}


def parse_pass(body: bytes) -> pb.ForwardBackwardRequest:
    """The envelope of a forward or forward_backward request; its data stay encoded."""
    try:
        return pb.ForwardBackwardRequest.FromString(body)
    except DecodeError as error:
        raise Refusal(400, f"the body is not a ForwardBackwardRequest message: {error}") from None


def to_data(request: pb.ForwardBackwardRequest) -> list[Datum]:
    """The batch: tokens int32 [T] and, by name, the loss inputs with the shape they were sent in.

    Raises:
        Refusal: An image or audio chunk, or bytes that do not fit their declared type and shape.
    """
    return [
        Datum(
            tokens=_tokens(datum.model_input),
            loss_inputs={name: _array(name, it) for name, it in datum.loss_fn_inputs.items()},
        )
        for datum in request.data
    ]


def loss_config(request: pb.ForwardBackwardRequest) -> dict[str, float]:
    """The numbers that configure the loss."""
    for name, value in request.loss_fn_config_v2.items():
        if value.WhichOneof("value") != "number":
            raise Refusal(400, f"loss_fn_config[{name!r}] must be a number, not {value.text!r}")
    return dict(request.loss_fn_config)


def pass_answer(result: PassResult) -> Answer:
    """Logprobs of every datum as one batched record, and the metrics."""
    ends = np.cumsum([0, *(4 * len(row) for row in result.logprobs)], dtype="<i8")
    record = pb.ArrayRecord(type_tag=_RECORD, num_datums=len(result.logprobs))
    record.fields["logprobs"].CopyFrom(
        pb.BatchedTensor(
            data=b"".join(_float_bytes(row) for row in result.logprobs),
            offsets=ends.tobytes(),
            dtype=pb.DTYPE_FLOAT32,
        )
    )
    message = pb.ForwardBackwardOutput(
        loss_fn_output_type=_RECORD, loss_fn_outputs=[record], metrics=result.metrics
    )
    return Answer(message.SerializeToString(), _PROTOBUF)


def sample_answer(result: SampleResult, *, scored: int | None) -> Answer:
    """The samples, and the prompt's logprobs where they were asked for.

    Args:
        result: What the engine sampled.
        scored: How many of the last prompt tokens to report logprobs for; None reports all.
    """
    message = pb.SampleResponse(sequences=[_sequence(sample) for sample in result.samples])
    if result.prompt_logprobs is not None:
        message.prompt_logprobs = _float_bytes(_last(result.prompt_logprobs, scored))
    if result.topk_prompt_logprobs is not None:
        ids, logprobs = result.topk_prompt_logprobs
        message.topk_prompt_logprobs.CopyFrom(_topk(ids, _last(logprobs, scored)))
    return Answer(message.SerializeToString(), _PROTOBUF)


def _sequence(sample: Sample) -> pb.SampledSequence:
    stopped = sample.stop_reason == "stop"
    return pb.SampledSequence(
        stop_reason=pb.STOP_REASON_STOP if stopped else pb.STOP_REASON_LENGTH,
        tokens=sample.tokens.astype("<i4").tobytes(),
        logprobs=_float_bytes(sample.logprobs),
    )


def _topk(ids: np.ndarray, logprobs: np.ndarray) -> pb.TopkLogprobs:
    length, k = ids.shape
    absent = np.isnan(logprobs)
    return pb.TopkLogprobs(
        token_ids=np.where(absent, 0, ids).astype("<i4").tobytes(),
        logprobs=_float_bytes(np.where(absent, _NO_LOGPROB, logprobs)),
        k=k,
        length=length,
    )


def _last(logprobs: np.ndarray, scored: int | None) -> np.ndarray:
    """`logprobs` with NaN, the wire's "not computed", before its last `scored` rows."""
    if scored is None:
        return logprobs
    masked = logprobs.copy()
    masked[: max(0, len(masked) - scored)] = np.nan
    return masked


def _tokens(chunks: Iterable[pb.Chunk]) -> np.ndarray:
    runs = [np.empty(0, np.int32)]
    for chunk in chunks:
        if chunk.WhichOneof("chunk") != "encoded_text":
            raise Refusal(400, "the local Tinker server takes text tokens only, no images or audio")
        runs.append(np.frombuffer(chunk.encoded_text.tokens, "<i4"))
    return np.concatenate(runs)


def _array(name: str, tensor: pb.Tensor) -> np.ndarray:
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise Refusal(400, f"loss input {name!r} must be float32 or int64")
    try:
        if tensor.HasField("sparse_csr"):
            return _dense(tensor.sparse_csr, dtype, tuple(tensor.shape))
        values = np.frombuffer(tensor.dense, dtype).copy()
        return values.reshape(tuple(tensor.shape)) if tensor.shape else values
    except (ValueError, IndexError) as error:
        raise Refusal(400, f"loss input {name!r} does not fit its shape: {error}") from None


def _dense(sparse: pb.SparseCsr, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A compressed sparse row matrix written out, 0 where it says nothing."""
    dense = np.zeros(shape, dtype)
    row_ends = np.frombuffer(sparse.crow_indices, "<i8")
    rows = np.repeat(np.arange(shape[0]), np.diff(row_ends))
    dense[rows, np.frombuffer(sparse.col_indices, "<i8")] = np.frombuffer(sparse.values, dtype)
    return dense


def _float_bytes(values: np.ndarray) -> bytes:
    return values.astype("<f4").tobytes()
