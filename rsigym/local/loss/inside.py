"""The program of a loss's process: imports torch and Tinker's types, is locked up, and computes.

The agent's code sees what it would see in `TrainingClient.forward_backward_custom`: Tinker's own
`Datum`s and a torch tensor of logprobs for each.
"""

import linecache
import os
import sys
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from rsigym.local.loss.frames import read_frame, write_frame
from rsigym.local.loss.room import die_with_parent, enter_room, limit

if TYPE_CHECKING:
    from tinker import Datum

__all__ = ["main"]

_NAME = "loss.py"
_MOST_METRICS = 32
_MOST_CHARACTERS = 8000
"""Of a traceback; its end is what says most."""


def main() -> None:
    """Serve on standard input and output until the parent closes its end."""
    die_with_parent()
    commands, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    settings, _ = read_frame(commands, sys.maxsize)
    import torch

    torch.set_num_threads(1)
    if settings["locked"]:
        enter_room()
    limit(settings["memory_mb"])
    os.dup2(nowhere, 2)
    write_frame(answers, {"ready": True})
    _serve(settings["source"], commands, answers)


def _serve(source: str, commands: BinaryIO, answers: BinaryIO) -> None:
    module: ModuleType | None = None
    while True:
        try:
            command, numbers = read_frame(commands, sys.maxsize)
        except EOFError:
            return
        try:
            module = module or _load(source)
            message, gradients = _compute(module, command, numbers)
        except BaseException:  # noqa: BLE001 - the agent's code may raise anything
            message, gradients = {"error": traceback.format_exc()[-_MOST_CHARACTERS:]}, b""
        write_frame(answers, message, gradients)


def _load(source: str) -> ModuleType:
    module = ModuleType("loss")
    sys.modules["loss"] = module
    # So that a traceback shows the agent's lines: there is no file to read them from.
    linecache.cache[_NAME] = (len(source), None, source.splitlines(keepends=True), _NAME)
    exec(compile(source, _NAME, "exec"), module.__dict__)
    return module


def _compute(
    module: ModuleType, command: dict[str, Any], numbers: bytes
) -> tuple[dict[str, Any], bytes]:
    import torch

    data, logprobs = _unpacked(command["data"], numbers)
    leaves = [torch.from_numpy(each).requires_grad_() for each in logprobs]
    loss, metrics = module.loss_fn(data, leaves)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        shape = list(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise TypeError(f"loss_fn must return (loss, metrics), the loss a scalar tensor: {shape}")
    loss.backward()
    shown = list(dict(metrics).items())[:_MOST_METRICS]
    message = {
        "loss": float(loss),
        "metrics": {str(name)[:64]: float(value) for name, value in shown},
    }
    gradients = [torch.zeros_like(it) if it.grad is None else it.grad for it in leaves]
    return message, torch.cat(gradients).numpy().astype(np.float32).tobytes()


def _unpacked(
    headers: list[dict[str, Any]], numbers: bytes
) -> "tuple[list[Datum], list[np.ndarray]]":
    """Each datum is its length and the names of its inputs; the numbers follow one another."""
    from tinker.types import Datum, ModelInput, TensorData

    values = np.frombuffer(numbers, np.float32)
    data: list[Datum] = []
    logprobs: list[np.ndarray] = []
    at = 0
    for header in headers:
        length, names = header["length"], header["inputs"]
        rows = values[at : at + length * (1 + len(names))].reshape(-1, length).copy()
        at += rows.size
        tokens = np.array(header["tokens"], np.int64)
        given = zip(names, rows[1:], strict=True)
        inputs = {name: TensorData.from_numpy(row) for name, row in given}
        inputs["target_tokens"] = TensorData.from_numpy(tokens[1:])
        data.append(Datum(ModelInput.from_ints(tokens[:-1].tolist()), inputs))
        logprobs.append(rows[0])
    return data, logprobs
