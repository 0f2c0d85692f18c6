"""What the SDK does not show: who may make a request, and what a wrong one is answered with."""

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b.envd.client_shared import ENVD_JSON_CODEC
from e2b.envd.process.process_connect import ProcessClientSync
from e2b.envd.process.process_pb import (
    ConnectRequest,
    ListRequest,
    ProcessConfig,
    ProcessSelector,
    SendSignalRequest,
    Signal,
    StartRequest,
)
from protobuf import Oneof

from rsigym.local.e2b.process import E2BServer
from tests.waiting import eventually


@pytest.fixture
def control(server: E2BServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"X-API-KEY": server.api_key}) as client:
        yield client


@pytest.fixture
def made(control: httpx.Client) -> Iterator[dict[str, Any]]:
    """A sandbox, as older SDKs create one."""
    answer = control.post("/sandboxes", json={"templateID": "base", "timeout": 60})
    assert answer.status_code == 201
    yield answer.json()
    control.delete(f"/sandboxes/{answer.json()['sandboxID']}")


@pytest.fixture
def data(server: E2BServer, made: dict[str, Any]) -> Iterator[httpx.Client]:
    headers = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
    with httpx.Client(base_url=server.url, headers=headers) as client:
        yield client


def is_refusal(answer: httpx.Response, status: int, words: str) -> bool:
    """Whether this is an error in the form that the SDK reads and does not try again."""
    body = answer.json()
    return (
        answer.status_code == body["code"] == status
        and words in body["message"]
        and answer.headers["should-retry"] == "false"
    )


@pytest.mark.parametrize("key", [None, "", "e2b_wrong", "ä"])
def test_the_control_plane_takes_its_key_only(server: E2BServer, key: str | None) -> None:
    headers = {} if key is None else {b"X-API-KEY": key.encode()}
    for method, path in (("GET", "/v2/sandboxes"), ("POST", "/v2/sandboxes"), ("GET", "/else")):
        answer = httpx.request(method, server.url + path, headers=headers)
        assert is_refusal(answer, 401, "API key")


def test_the_data_plane_takes_the_sandboxs_token_only(
    server: E2BServer, control: httpx.Client, made: dict[str, Any]
) -> None:
    other = control.post("/v2/sandboxes", json={"templateID": "base", "timeout": 60}).json()
    requests = (
        ("POST", "/process.Process/List"),
        ("POST", "/filesystem.Filesystem/Stat"),
        ("GET", "/files?path=/etc/hosts"),
        ("POST", "/files?path=/tmp/a"),
    )
    for token in ("", "wrong", server.api_key, other["envdAccessToken"]):
        headers = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": token}
        for method, path in requests:
            answer = httpx.request(method, server.url + path, headers=headers, json={})
            assert is_refusal(answer, 401, "access token"), path
    control.delete(f"/sandboxes/{other['sandboxID']}")


def test_health_says_when_a_sandbox_is_gone(
    control: httpx.Client, data: httpx.Client, made: dict[str, Any]
) -> None:
    assert data.get("/health").status_code == 204
    assert is_refusal(
        data.get("/health", headers={"E2b-Sandbox-Port": "8000"}), 502, "port is not open"
    )
    control.delete(f"/sandboxes/{made['sandboxID']}")
    assert is_refusal(data.get("/health"), 502, "was not found")
    assert is_refusal(data.post("/process.Process/List", json={}), 502, "was not found")
    assert is_refusal(data.get("/files?path=/etc/hosts"), 502, "was not found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/templates"),
        ("POST", "/v3/templates"),
        ("GET", "/volumes"),
        ("POST", "/secrets"),
        ("GET", "/v2/sandboxes/x/logs"),
        ("PATCH", "/anything"),
    ],
)
def test_what_is_not_here_says_so(control: httpx.Client, method: str, path: str) -> None:
    assert is_refusal(control.request(method, path), 501, "does not support")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"templateID": 1}',
        b'{"templateID": "base", "timeout": true}',
        b'{"templateID": "base", "timeout": -1}',
        b'{"templateID": "base", "metadata": {"a": 1}}',
        b'{"templateID": "base", "timeout": 1e9}',
    ],
)
def test_a_body_that_is_wrong_is_refused(control: httpx.Client, body: bytes) -> None:
    assert is_refusal(control.post("/v2/sandboxes", content=body), 400, "")


@pytest.mark.parametrize(
    "query", ["limit=x", "limit=0", "limit=1000", "nextToken=x", "startedAfter=x"]
)
def test_a_query_that_is_wrong_is_refused(control: httpx.Client, query: str) -> None:
    assert is_refusal(control.get(f"/v2/sandboxes?{query}"), 400, "")


_PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "multipart/form-data"}, b"x"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"not that"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, _PART + b"cut"),
        ({"Content-Encoding": "gzip"}, b"not gzip"),
    ],
)
def test_an_upload_that_is_wrong_is_refused(
    data: httpx.Client, headers: dict[str, str], body: bytes
) -> None:
    answer = data.post("/files?path=/tmp/a", headers=headers, content=body)
    assert is_refusal(answer, 400, "the body")


def test_a_signature_whose_time_is_no_number_is_refused(data: httpx.Client) -> None:
    answer = data.get("/files?path=/tmp/a&signature=v1_x&signature_expiration=soon")
    assert is_refusal(answer, 401, "signature")


def happened(response: Any) -> Any:
    """The event of a stream of processes."""
    return response.event.event.value


def test_a_process_is_found_by_its_tag(data: httpx.Client) -> None:
    rpc = ProcessClientSync(
        str(data.base_url), codec=ENVD_JSON_CODEC, send_compression=None, accept_compression=()
    )
    headers = {name: data.headers[name] for name in ("e2b-sandbox-id", "x-access-token")}
    request = StartRequest(process=ProcessConfig(cmd="/bin/sleep", args=["60"]), tag="sleeper")
    stream = rpc.start(request, headers=headers)
    pid = happened(next(stream)).pid
    [listed] = rpc.list(ListRequest(), headers=headers).processes
    assert (listed.pid, listed.tag) == (pid, "sleeper")
    by_tag = ProcessSelector(selector=Oneof("tag", "sleeper"))
    again = rpc.connect(ConnectRequest(process=by_tag), headers=headers)
    assert happened(next(again)).pid == pid
    rpc.send_signal(SendSignalRequest(process=by_tag, signal=Signal.SIGTERM), headers=headers)
    end = happened(next(again))
    assert (end.exit_code, end.exited, end.status) == (-1, False, "signal: terminated")
    eventually(lambda: not rpc.list(ListRequest(), headers=headers).processes, "it is still there")
    for selector in (by_tag, ProcessSelector()):
        with pytest.raises(ConnectError) as raised:
            rpc.send_signal(SendSignalRequest(process=selector), headers=headers)
        assert raised.value.code in (Code.NOT_FOUND, Code.INVALID_ARGUMENT)


def test_credentials_that_are_no_credentials_are_refused(data: httpx.Client) -> None:
    basic = base64.b64encode(b"root:").decode()
    ok = {"Authorization": f"Basic {basic}"}
    assert data.post("/process.Process/List", json={}, headers=ok).status_code == 200
    bad = {"Authorization": "Basic !"}
    assert is_refusal(data.post("/process.Process/List", json={}, headers=bad), 401, "Basic")


@pytest.mark.parametrize("body", [b"\xff", b"[" * 100_000, b"{"])
def test_a_body_that_is_no_json_is_the_caller_s_fault(control: httpx.Client, body: bytes) -> None:
    assert is_refusal(control.post("/v2/sandboxes", content=body), 400, "not JSON")


def test_metrics_of_no_time_are_the_caller_s_fault(
    control: httpx.Client, made: dict[str, Any]
) -> None:
    answer = control.get(f"/sandboxes/{made['sandboxID']}/metrics", params={"end": "now"})
    assert is_refusal(answer, 400, "number of seconds")
