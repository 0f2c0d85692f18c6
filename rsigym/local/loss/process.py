"""The process of an agent's own loss, as its parent sees it."""

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

import rsigym
from rsigym.local.loss.frames import read_frame, write_frame
from rsigym.local.sandbox import Isolation
from rsigym.platform.errors import BadCall, ServiceFailure

__all__ = ["LossProcess", "open_loss"]

_START_S = 180.0
"""Importing torch takes seconds, on a busy machine many."""

_CALL_S = 60.0
_MEMORY_MB = 4096
_MOST_TEXT = 2**16
"""Bytes of an answer beside its gradients."""

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""All that is in its environment. One thread also because a process with more cannot be locked."""


class LossProcess:
    """Computes a loss of batch after batch. For one thread."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes], call_s: float):
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._log, self._call_s = process, log, call_s
        self._commands, self._answers = process.stdin, process.stdout
        self._hung = False

    def start(self, settings: dict[str, Any]) -> None:
        """Tell it what it needs to know, and wait until it is ready.

        Raises:
            ServiceFailure: It did not start.
        """
        try:
            with self._deadline(_START_S):
                write_frame(self._commands, settings)
                read_frame(self._answers, _MOST_TEXT)
        except (EOFError, BrokenPipeError):
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip().splitlines()
            raise ServiceFailure(
                f"the process of the loss did not start: {said[-1] if said else 'it said nothing'}",
                side="sandbox",
            ) from None

    def __call__(
        self,
        tokens: Sequence[np.ndarray],
        inputs: Sequence[Mapping[str, np.ndarray]],
        logprobs: Sequence[np.ndarray],
    ) -> tuple[float, list[np.ndarray], dict[str, float]]:
        """The loss of a batch, its derivatives with respect to the logprobs, and its metrics.

        Args:
            tokens: int [T] of each sequence.
            inputs: float32 [T - 1] each, of each sequence: its `loss_fn_inputs` but the targets.
            logprobs: float32 [T - 1] of each sequence.

        Raises:
            BadCall: The agent's code failed, with its `traceback`; or it ended, hung, or answered
                something else.
        """
        headers = [
            {"length": len(each), "tokens": text.tolist(), "inputs": [*names]}
            for text, names, each in zip(tokens, inputs, logprobs, strict=True)
        ]
        rows = [
            row for each, own in zip(inputs, logprobs, strict=True) for row in (own, *each.values())
        ]
        numbers = np.concatenate(rows).astype(np.float32).tobytes()
        lengths = [len(each) for each in logprobs]
        try:
            with self._deadline(self._call_s):
                write_frame(self._commands, {"data": headers}, numbers)
                message, raw = read_frame(self._answers, _MOST_TEXT + 4 * sum(lengths))
        except (EOFError, BrokenPipeError):
            raise self._ended() from None
        except (ValueError, RecursionError) as error:
            raise BadCall(f"the process of the loss answered nonsense: {error}") from None
        return _checked(message, raw, lengths)

    @contextmanager
    def _deadline(self, seconds: float) -> Iterator[None]:
        """Kill the process at the end of its time, which ends whoever waits for it."""

        def kill() -> None:
            self._hung = True
            self._process.kill()

        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _ended(self) -> BadCall:
        if self._hung:
            return BadCall(f"loss_fn did not answer within {self._call_s:g} s: make it faster")
        status = self._process.wait()
        # A signal shows as a shell would show it, because the process is behind another one.
        number = -status if status < 0 else status - 128
        with suppress(ValueError):
            status = f"{signal.Signals(number).name}"
        return BadCall(
            f"the process of the loss ended in loss_fn ({status}): it may use {_MEMORY_MB} MiB and "
            "must not exit"
        )


def _checked(
    message: dict[str, Any], raw: bytes, lengths: list[int]
) -> tuple[float, list[np.ndarray], dict[str, float]]:
    if "error" in message:
        lines = str(message["error"]).strip().splitlines() or [""]
        raise BadCall(f"loss_fn failed: {lines[-1][:500]}", traceback=str(message["error"]))
    loss, metrics = message.get("loss"), message.get("metrics")
    if not isinstance(loss, float) or not isinstance(metrics, dict) or len(raw) % 4:
        raise BadCall("the process of the loss answered nonsense")
    gradients = np.frombuffer(raw, np.float32)
    if len(gradients) != sum(lengths):
        raise BadCall(f"loss_fn gave {len(gradients)} gradients for {sum(lengths)} logprobs")
    if not np.isfinite(loss) or not np.isfinite(gradients).all():
        raise BadCall(f"loss_fn answered a loss of {loss} or a gradient that is not finite")
    finite = {
        str(name): float(value)
        for name, value in metrics.items()
        if isinstance(value, float) and np.isfinite(value)
    }
    return loss, np.split(gradients, np.cumsum(lengths)[:-1]), finite


@contextmanager
def open_loss(
    source: str, *, isolation: Isolation, call_s: float = _CALL_S
) -> Iterator[LossProcess]:
    """Start the process of a loss, in seconds; it ends with the block.

    Args:
        source: Python that defines `loss_fn(data, logprobs) -> (loss, metrics)`.
        isolation: With `bubblewrap` it is locked up by the same means of the kernel; with
            `process` it has limits and nothing else.
        call_s: Seconds that it has for a batch.

    Raises:
        ServiceFailure: It does not start here.
    """
    root = str(Path(rsigym.__file__).parents[1])
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from rsigym.local.loss.inside import main"
    )
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", f"{program}; main()", root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=_ONE_THREAD,
            start_new_session=True,
        )
        loss = LossProcess(process, log, call_s)
        try:
            loss.start(
                {"source": source, "locked": isolation == "bubblewrap", "memory_mb": _MEMORY_MB}
            )
            yield loss
        finally:
            process.kill()
            process.communicate()
