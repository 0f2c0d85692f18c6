"""An agent's own loss: what it computes, what it cannot reach, and how it fails."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from rsigym.local.loss.process import LossProcess, open_loss
from rsigym.local.sandbox import choose_isolation
from rsigym.platform.errors import BadCall

TOKENS = [np.array([5, 6, 7]), np.array([8, 9])]
LOGPROBS = [np.array([-1.0, -2.0], np.float32), np.array([-3.0], np.float32)]

LOSS = """\
import torch

def squares(data, logprobs):
    assert [datum.model_input.to_ints() for datum in data] == [[5, 6], [8]]
    assert data[0].loss_fn_inputs["target_tokens"].to_torch().tolist() == [6, 7]
    assert "advantages" not in data[1].loss_fn_inputs
    weights = [datum.loss_fn_inputs["weights"].to_torch() for datum in data]
    loss = sum((w * lp**2).sum() for w, lp in zip(weights, logprobs))
    repr(loss), torch.distributions.Normal(0, 1)  # import modules only now
    return loss, {"records": len(data), "infinite": float("inf")}

WAYS = [
    squares,
    lambda data, logprobs: undefined,
    lambda data, logprobs: exit(3),
    lambda data, logprobs: (logprobs[0], {}),
    lambda data, logprobs: logprobs[0].sum(),
    lambda data, logprobs: (torch.tensor(1.0), {}),
    lambda data, logprobs: ((logprobs[0] * float("nan")).sum(), {}),
    lambda data, logprobs: torch.zeros(2**33),
]

def loss_fn(data, logprobs):
    return WAYS[int(data[0].loss_fn_inputs["advantages"].to_torch()[0])](data, logprobs)
"""
FAILURES = [
    (1, "NameError: name 'undefined'", 'File "loss.py"'),
    (2, "SystemExit|NameError", 'File "loss.py"'),
    (3, "scalar tensor", "inside.py"),
    (4, "iterat|unpack", "inside.py"),
    (5, "does not require grad", "inside.py"),
    (6, "not finite", None),
    (7, "memory", "lambda data, logprobs: torch.zeros"),
]
ESCAPES = """\
import errno, os, socket

def refused(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0

calls = []

def loss_fn(data, logprobs):
    calls.append(1)
    if len(calls) > 1:
        os._exit(7)
    listener = ("127.0.0.1", PORT)
    tried = {
        "fork": refused(os.fork),
        "write": refused(lambda: open("/tmp/x", "w")) or refused(lambda: open("/x", "w")),
        "chroot": refused(lambda: os.chroot("/usr")),
        "unshare": refused(lambda: os.unshare(os.CLONE_NEWUSER)),
        "connect": refused(lambda: socket.create_connection(listener, 1)),
        "passwd": refused(lambda: open("/etc/passwd")),
        "kill": refused(lambda: os.kill(PARENT, 0)),
    }
    leaks = {"environment": "CANARY" in os.environ, "root": os.getuid() == 0}
    return sum(lp.sum() for lp in logprobs), {**tried, **leaks}
"""


@contextmanager
def opened(source: str, call_s: float = 60) -> Iterator[LossProcess]:
    with open_loss(source, isolation=choose_isolation("auto"), call_s=call_s) as loss:
        yield loss


@pytest.fixture(scope="module")
def loss() -> Iterator[LossProcess]:
    with opened(LOSS) as loss:
        yield loss


def inputs(way: int) -> list[dict[str, np.ndarray]]:
    """What makes the loss go one of its ways."""
    first = {"weights": np.array([0, 1]), "advantages": np.array([way, 0])}
    return [first, {"weights": np.array([1])}]


def test_it_computes_what_tinker_s_client_would(loss: LossProcess) -> None:
    for _ in range(2):
        value, gradients, metrics = loss(TOKENS, inputs(0), LOGPROBS)
        assert value == pytest.approx(13)
        assert [each.tolist() for each in gradients] == [[0, -4], [-6]]
        assert metrics == {"records": 2}


@pytest.mark.parametrize(("way", "says", "traced"), FAILURES)
def test_a_failure_is_told_with_its_traceback(
    loss: LossProcess, way: int, says: str, traced: str | None
) -> None:
    with pytest.raises(BadCall, match=says) as caught:
        loss(TOKENS, inputs(way), LOGPROBS)
    trace: Any = caught.value.details.get("traceback")
    assert trace is None if traced is None else traced in trace


def test_a_hang_ends_it() -> None:
    with opened("def loss_fn(data, logprobs):\n    while True: pass", call_s=0.5) as loss:
        for _ in range(2):
            with pytest.raises(BadCall, match="did not answer within"):
                loss(TOKENS, inputs(0), LOGPROBS)


@pytest.mark.skipif(choose_isolation("auto") == "process", reason="needs user namespaces")
def test_it_reaches_nothing_and_its_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        source = ESCAPES.replace("PORT", port).replace("PARENT", str(os.getpid()))
        with opened(source) as loss:
            _, _, metrics = loss(TOKENS, inputs(0), LOGPROBS)
            with pytest.raises(BadCall, match=r"ended in loss_fn \(7\)"):
                loss(TOKENS, inputs(0), LOGPROBS)
    assert metrics.pop("environment") == metrics.pop("root") == 0
    assert all(metrics.values()), metrics
