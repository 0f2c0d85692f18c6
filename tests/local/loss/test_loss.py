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
INPUTS = [
    {"weights": np.array([0, 1], np.float32), "advantages": np.array([0.5, 2], np.float32)},
    {"weights": np.array([1], np.float32)},
]

LOSS = """\
import torch

def loss_fn(data, logprobs):
    assert [datum.model_input.to_ints() for datum in data] == [[5, 6], [8]]
    assert data[0].loss_fn_inputs["target_tokens"].to_torch().tolist() == [6, 7]
    assert data[0].loss_fn_inputs["advantages"].to_torch().tolist() == [0.5, 2]
    assert "advantages" not in data[1].loss_fn_inputs
    weights = [datum.loss_fn_inputs["weights"].to_torch() for datum in data]
    loss = sum((w * lp**2).sum() for w, lp in zip(weights, logprobs))
    repr(loss), torch.distributions.Normal(0, 1)  # import modules only now
    return loss, {"records": len(data)}
"""
ESCAPES = """\
import errno, os, socket

def refused(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0

def loss_fn(data, logprobs):
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
FAILURES = {
    "raises": ("def loss_fn(data, logprobs):\n    return undefined", "NameError", "undefined"),
    "at import": ("1 / 0\ndef loss_fn(data, logprobs): ...", "ZeroDivisionError", "1 / 0"),
    "exits": ("def loss_fn(data, logprobs):\n    raise SystemExit(3)", "SystemExit", ""),
    "is no number": ("def loss_fn(data, logprobs):\n    return logprobs[0], {}", "scalar", ""),
    "is no pair": ("def loss_fn(data, logprobs):\n    return logprobs[0].sum()", "iterat", ""),
    "is constant": (
        "import torch\ndef loss_fn(data, logprobs):\n    return torch.tensor(1.0), {}",
        "does not require grad",
        "",
    ),
    "is NaN": (
        "def loss_fn(data, logprobs):\n    return (logprobs[0] * float('nan')).sum(), {}",
        "not finite",
        None,
    ),
    "dies": (
        "import os\ndef loss_fn(data, logprobs):\n    os._exit(7)",
        r"ended in loss_fn \(7\)",
        None,
    ),
    "is too large": (
        "import torch\ndef loss_fn(data, logprobs):\n    torch.zeros(2**33)",
        "memory",
        "",
    ),
    "hangs": ("def loss_fn(data, logprobs):\n    while True: pass", "within 2 s", None),
}


@contextmanager
def opened(source: str, call_s: float = 60) -> Iterator[LossProcess]:
    with open_loss(source, isolation=choose_isolation("auto"), call_s=call_s) as loss:
        yield loss


def test_it_computes_what_tinker_s_client_would() -> None:
    with opened(LOSS) as loss:
        for _ in range(2):
            value, gradients, metrics = loss(TOKENS, INPUTS, LOGPROBS)
            assert value == pytest.approx(13)
            assert [each.tolist() for each in gradients] == [[0, -4], [-6]]
            assert metrics == {"records": 2}


@pytest.mark.skipif(choose_isolation("auto") == "process", reason="needs user namespaces")
def test_it_reaches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        source = ESCAPES.replace("PORT", port).replace("PARENT", str(os.getpid()))
        with opened(source) as loss:
            _, _, metrics = loss(TOKENS, INPUTS, LOGPROBS)
    assert metrics.pop("environment") == metrics.pop("root") == 0
    assert all(metrics.values()), metrics


@pytest.mark.parametrize(("source", "says", "traced"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_told_with_its_traceback(source: str, says: str, traced: str | None) -> None:
    with opened(source, call_s=2) as loss, pytest.raises(BadCall, match=says) as caught:
        loss(TOKENS, INPUTS, LOGPROBS)
    trace: Any = caught.value.details.get("traceback")
    assert trace is None if traced is None else 'File "loss.py"' in trace and traced in trace
