"""A trial in an Offline env reaches its model and nothing else, whatever way it tries."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rsigym.platform.errors import OperatorError
from rsigym.platform.outcome import Status
from tests.envs.conftest import MODEL, Open

PROBE = """\
cat > /dev/null
python3 - <<'PY'
import json, os, socket, urllib.request
from urllib.parse import urlsplit

base, outside = os.environ["OPENAI_API_BASE"], ("127.0.0.1", PORT)
host = (urlsplit(base).hostname, urlsplit(base).port)

def tried(attempt):
    try:
        return repr(attempt())
    except OSError:
        return None

def directly():
    return socket.create_connection(outside, timeout=5).recv(100)

def by_datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(2)
        udp.connect(outside)
        udp.send(b"knock")
        return udp.recv(100)

def through_the_endpoint(line):
    with socket.create_connection(host, timeout=30) as endpoint:
        endpoint.sendall(f"{line} HTTP/1.1\\r\\nHost: 127.0.0.1:PORT\\r\\n"
                         "Connection: close\\r\\n\\r\\n".encode())
        answer = b""
        while piece := endpoint.recv(4096):
            answer += piece
        return "secret" in answer.decode() or None

def model():
    body = {"model": os.environ["OPENAI_MODEL"], "max_tokens": 4,
            "messages": [{"role": "user", "content": "hello"}]}
    request = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))["object"]

print(json.dumps({
    "directly": tried(directly),
    "datagram": tried(by_datagram),
    "proxied": tried(lambda: through_the_endpoint("GET http://127.0.0.1:PORT/")),
    "tunnelled": tried(lambda: through_the_endpoint("CONNECT 127.0.0.1:PORT")),
    "path": tried(lambda: through_the_endpoint("GET /http://127.0.0.1:PORT/")),
    "lookup": tried(lambda: socket.getaddrinfo("example.com", 80)),
    "host": tried(lambda: socket.create_connection(("HOSTNAME", PORT), timeout=5)),
    "model": tried(model),
}))
PY
"""


class Outside:
    """A server of this machine that a sandbox must not reach; it counts who does, and answers."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        self._threads = [
            threading.Thread(target=serve, daemon=True) for serve in (self._streams, self._packets)
        ]
        for thread in self._threads:
            thread.start()

    def _streams(self) -> None:
        while True:
            connection, _ = self._tcp.accept()
            with connection:
                self.reached.append("stream")
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")
                if connection.recv(4) == b"stop":
                    return

    def _packets(self) -> None:
        while (received := self._udp.recvfrom(100))[0] != b"stop":
            self.reached.append("packet")
            self._udp.sendto(b"secret", received[1])

    def answers(self) -> bool:
        """Whether it can be reached from here."""
        with socket.create_connection(("127.0.0.1", self.port)) as stream:
            return b"secret" in stream.recv(100)

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as stop:
            stop.sendall(b"stop")
        self._udp.sendto(b"stop", ("127.0.0.1", self.port))
        for thread in self._threads:
            thread.join()
        self._tcp.close()
        self._udp.close()


@pytest.fixture
def outside() -> Iterator[Outside]:
    outside = Outside()
    yield outside
    outside.close()


def test_a_trial_reaches_its_model_and_nothing_outside(open_env: Open, outside: Outside) -> None:
    assert outside.answers()
    env = open_env("RSIGym/Integers-Offline-v0", sandbox="bubblewrap")
    try:
        env.reset(seed=0)
    except OperatorError as error:
        pytest.skip(str(error))

    def ask(op: str, **args: Any) -> dict[str, Any]:
        observation, *_ = env.step({"op": op, "args": args})
        assert observation["status"] == Status.OK, observation["evidence"]
        return observation["evidence"]

    probe = PROBE.replace("PORT", str(outside.port)).replace("HOSTNAME", socket.gethostname())
    ask("workspace.write", path="probe/run.sh", content=probe, executable=True)
    handle = ask("evaluation.submit", model=MODEL, harness="probe", n_tasks=1)["handle"]
    while not ask("run.wait", handles=[handle])["ended"]:
        pass
    (trial,) = ask("evaluation.status", handle=handle)["trials"]
    assert trial["error"] is None
    read = {"handle": handle, "trial": trial["trial"], "file": "agent/stdout.txt"}
    seen = json.loads(ask("evaluation.read", **read)["content"])

    assert seen.pop("model") == "'chat.completion'"
    refused = ("directly", "datagram", "lookup", "host")
    assert {name: seen.pop(name) for name in refused} == dict.fromkeys(refused)
    # The endpoint does answer, but with nothing from outside.
    assert seen == dict.fromkeys(("proxied", "tunnelled", "path"), "None")
    assert outside.reached == ["stream"], "only from here, before the trial"
