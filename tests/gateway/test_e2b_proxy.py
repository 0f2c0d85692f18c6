"""The E2B proxy: whose sandboxes are whose, what is refused, and what is never told."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2b import (
    AuthenticationException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxQuery,
)

from rsigym.gateway.e2b_tenant import Tenant
from rsigym.platform.outcome import Status
from rsigym.platform.permissions import Permissions, SandboxGrant
from rsigym.services.e2b_client import E2BAddress
from tests.gateway.proxied import Proxied, eventually
from tests.services.sandbox_bench import SandboxRun


def listed(run: dict[str, Any], metadata: dict[str, str] | None = None, **more: Any) -> list[Any]:
    pages = Sandbox.list(SandboxQuery(metadata=metadata), **more, **run)
    found: list[Any] = []
    while pages.has_next:
        found += pages.next_items()
    return found


def refused(response: httpx.Response, status: int) -> str:
    assert response.status_code == status
    assert response.headers["should-retry"] == "false"
    body = response.json()
    assert body["code"] == status
    return body["message"]


def test_a_run_sees_its_own_sandboxes_and_no_others(proxied: Proxied) -> None:
    mine, theirs = proxied.run(), proxied.run()
    box = Sandbox.create(metadata={"a b": "c&d=é%"}, **mine)
    Sandbox.create(metadata={"a b": "c&d=é%"}, **theirs)
    assert [each.sandbox_id for each in listed(mine)] == [box.sandbox_id]
    assert [each.sandbox_id for each in listed(mine, {"a b": "c&d=é%"})] == [box.sandbox_id]
    assert listed(mine, {"a b": "x"}) == []
    assert box.get_info().metadata == listed(mine)[0].metadata == {"a b": "c&d=é%"}


def test_to_others_a_sandbox_does_not_exist(proxied: Proxied) -> None:
    mine, theirs = proxied.run(), proxied.run()
    box = Sandbox.create(**mine)
    assert Sandbox.kill(box.sandbox_id, **theirs) is False
    path = f"/sandboxes/{box.sandbox_id}"
    for method, suffix in (
        ("GET", ""),
        ("POST", "/timeout"),
        ("POST", "/pause"),
        ("POST", "/connect"),
        ("POST", "/resume"),
        ("GET", "/metrics"),
        ("PUT", "/network"),
        ("DELETE", ""),
    ):
        refused(proxied.request(theirs, method, path + suffix), 404)
    assert box.get_info().sandbox_id == box.sandbox_id


def test_pages_hold_a_run_s_own_sandboxes_only(proxied: Proxied) -> None:
    mine, theirs = proxied.run(), proxied.run()
    ids: set[str] = set()
    for _ in range(3):
        ids.add(Sandbox.create(**mine).sandbox_id)
        Sandbox.create(**theirs)
    assert {each.sandbox_id for each in listed(mine, limit=2)} == ids


@pytest.mark.parametrize("name", ["rsigym.owner", "RSIGYM.create", "rsigym.x"])
def test_the_names_of_tags_are_reserved(proxied: Proxied, name: str) -> None:
    run = proxied.run()
    with pytest.raises(SandboxException, match="reserved") as caught:
        Sandbox.create(metadata={name: "run-2"}, **run)
    assert caught.value.status_code == 400
    with pytest.raises(SandboxException, match="reserved"):
        listed(run, {name: "run-2"})
    assert proxied.hop.seen == []


def test_a_list_cannot_be_widened_by_saying_it_twice(proxied: Proxied) -> None:
    mine, theirs = proxied.run(), proxied.run()
    Sandbox.create(**theirs)
    query = "metadata=rsigym%252Eowner%3Drun-2&metadata=&state=running&team=x"
    answer = proxied.request(mine, "GET", f"/v2/sandboxes?{query}")
    assert answer.status_code in (200, 400)
    assert answer.status_code == 400 or answer.json() == []
    assert "team" not in proxied.hop.seen[-1].line


def test_parallel_creates_get_exactly_the_free_slots(proxied: Proxied) -> None:
    run = proxied.run(max_sandboxes=3)

    with ThreadPoolExecutor(8) as pool:
        creates = [pool.submit(Sandbox.create, **run) for _ in range(8)]
    made = [each.result() for each in creates if each.exception() is None]
    refusals = [error for each in creates if (error := each.exception()) is not None]
    assert len(made) == len(proxied.hop.lines("POST /v2/sandboxes ")) == 3
    assert {getattr(error, "status_code", None) for error in refusals} == {403}
    assert all("3 sandboxes at a time" in str(error) for error in refusals)
    assert made[0].kill()
    assert Sandbox.create(**run).sandbox_id


def test_a_paused_sandbox_takes_no_slot_and_costs_nothing(proxied: Proxied) -> None:
    run = proxied.run(max_sandboxes=1)
    box = Sandbox.create(**run)
    box.pause()
    paused = proxied.balance(run)
    assert (proxied.occupied(run), paused.held) == (0, 0)
    assert paused.spent > 0
    other = Sandbox.create(**run)
    with pytest.raises(SandboxException, match="at a time"):
        box.connect()
    other.kill()
    spent = proxied.balance(run).spent
    box.connect()
    assert (proxied.occupied(run), proxied.balance(run).spent) == (1, spent)
    assert proxied.balance(run).held > 0


@pytest.mark.parametrize("asked", [True, None])
def test_the_grant_decides_about_the_internet(proxied: Proxied, asked: bool | None) -> None:
    run = proxied.run(internet=False)
    box = Sandbox.create(allow_internet_access=asked, network={"allow_out": ["0.0.0.0/0"]}, **run)
    box.update_network({"allow_out": ["0.0.0.0/0"], "allow_internet_access": True})
    closed = {"allowOut": [], "denyOut": ["0.0.0.0/0"]}
    (create,) = proxied.hop.lines("POST /v2/sandboxes ")
    assert create.body["allow_internet_access"] is False
    assert create.body["network"] == closed
    (update,) = proxied.hop.lines("PUT ")
    assert update.body == {**closed, "allow_internet_access": False}


def test_with_the_grant_the_network_is_the_caller_s(proxied: Proxied) -> None:
    Sandbox.create(network={"allow_out": ["example.org"]}, **proxied.run())
    (create,) = proxied.hop.lines("POST /v2/sandboxes ")
    assert create.body["allow_internet_access"] is True
    assert create.body["network"] == {"allowOut": ["example.org"]}


def test_a_template_that_is_not_granted_is_refused(proxied: Proxied) -> None:
    run = proxied.run(templates=["base"])
    with pytest.raises(SandboxException, match="'gpu' is not allowed") as caught:
        Sandbox.create("gpu", **run)
    assert caught.value.status_code == 403
    assert proxied.hop.seen == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v3/templates"),
        ("GET", "/templates"),
        ("POST", "/sandboxes/x/snapshots"),
        ("POST", "/sandboxes/x/fork"),
        ("POST", "/sandboxes/x/refreshes"),
        ("GET", "/teams"),
        ("PATCH", "/v2/sandboxes"),
        ("GET", "/v2/sandboxes/"),
        ("GET", "/sandboxes/..%2Fteams"),
        ("GET", "/"),
    ],
)
def test_what_is_not_listed_is_refused(proxied: Proxied, method: str, path: str) -> None:
    response = proxied.request(proxied.run(), method, path, follow_redirects=False)
    refused(response, 501)
    assert proxied.hop.seen == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (b" " * 2_000_000, 413),
        (b"{}", 400),
        (b'{"templateID": 5}', 400),
        (b'{"templateID": "base", "timeout": 0}', 400),
        (b'{"templateID": "base", "timeout": 1e3}', 400),
        (b'{"templateID": "base", "timeout": true}', 400),
        (b'{"templateID": "base", "metadata": {"a": 1}}', 400),
        (b'{"templateID": "base", "metadata": "rsigym.owner=x"}', 400),
        (b'{"templateID": "base", "iam": {"tokens": {"aws": {}}}}', 501),
        (b'{"templateID": "base", "volumeMounts": [{"name": "v", "path": "/v"}]}', 501),
        (b'{"templateID": "base", "autoPause": true, "autoResume": {"enabled": true}}', 501),
        (b'{"templateID": "base", "autoResume": "yes"}', 501),
    ],
)
def test_a_create_that_is_not_understood_is_refused(
    proxied: Proxied, body: bytes, status: int
) -> None:
    run = proxied.run(budget=10**9)
    assert refused(proxied.request(run, "POST", "/v2/sandboxes", content=body), status)
    assert proxied.hop.seen == []
    assert (proxied.balance(run).held, proxied.occupied(run)) == (0, 0)


def test_a_key_that_is_not_known_gets_nowhere(proxied: Proxied) -> None:
    for key in ("nobody", "", proxied.server.api_key):
        refused(proxied.request({"api_key": key}, "GET", "/v2/sandboxes"), 401)
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_url=proxied.url, api_key="nobody")
    assert proxied.hop.seen == []


def test_the_hosted_key_goes_up_and_never_down(proxied: Proxied) -> None:
    run, key = proxied.run(), proxied.server.api_key
    box = Sandbox.create(**run)
    told = f'{{"code": 400, "message": "no team for {key}"}}'.encode()
    head = f"HTTP/1.1 400 Bad Request\r\nx-next-token: {key}\r\nContent-Length: {len(told)}\r\n\r\n"
    proxied.hop.spoil["/metrics"] = head.encode() + told
    answer = proxied.request(run, "GET", f"/sandboxes/{box.sandbox_id}/metrics")
    assert answer.json() == {"code": 400, "message": "no team for ***"}
    assert key not in str(answer.headers)
    for request in proxied.hop.seen:
        assert request.headers["x-api-key"] == key
        assert run["api_key"] not in str(request)


def test_a_hosted_key_that_is_refused_is_the_platform_s_fault(proxied: Proxied) -> None:
    run = proxied.run()
    proxied.hop.instead["POST"] = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    message = refused(
        proxied.request(run, "POST", "/v2/sandboxes", json={"templateID": "base"}), 502
    )
    assert "the platform's key" in message


def test_the_same_create_said_twice_makes_one_sandbox(proxied: Proxied) -> None:
    run = proxied.run()
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda _: Sandbox.create(idempotency_key="a-1", **run), range(4))
        ids = {box.sandbox_id for box in made}
    assert len(ids) == len(proxied.hop.lines("POST /v2/sandboxes ")) == 1
    assert Sandbox.create(idempotency_key="a-1", **proxied.run()).sandbox_id not in ids


def test_a_run_that_ends_takes_its_sandboxes_with_it(proxied: Proxied) -> None:
    mine, theirs = proxied.run(), proxied.run()
    Sandbox.create(**mine)
    Sandbox.create(**mine).pause()
    other = Sandbox.create(**theirs)
    proxied.loop.run(proxied.proxy.end_run(proxied.tenants[mine["api_key"]].name))
    assert proxied.upstream() == {other.sandbox_id}
    assert proxied.balance(mine).held == 0


def test_a_run_that_is_over_gets_no_more(proxied: Proxied) -> None:
    run = proxied.run()
    proxied.loop.run(proxied.proxy.end_run("run-1"))
    with pytest.raises(SandboxException, match="the run is over"):
        Sandbox.create(**run)
    assert proxied.hop.seen == []


def test_the_slots_of_a_run_are_the_same_through_every_door(
    proxied: Proxied, tmp_path: Path
) -> None:
    limit = Permissions(sandbox=SandboxGrant(max_sandboxes=1))
    hosted = E2BAddress(*(proxied.hosted[name] for name in ("api_url", "api_key", "sandbox_url")))
    run = SandboxRun(tmp_path, lambda: hosted, permissions=limit)
    proxied.tenants["key"] = Tenant.of(run.run, run.slots)
    options: dict[str, Any] = {**proxied.hosted, "api_url": proxied.url, "api_key": "key"}
    box = run.create()
    with pytest.raises(SandboxException, match="1 sandboxes at a time"):
        Sandbox.create(**options)
    run.ask("sandbox.kill", sandbox=box)
    other = Sandbox.create(**options)
    assert run.fail(Status.REFUSED, "sandbox.create")["rule"] == "sandbox.max_sandboxes"
    spent = run.ledger.balance("run").spent
    other.kill()
    assert run.ledger.balance("run").spent > spent
    del proxied.tenants["key"]
    run.close()


def test_a_sandbox_that_was_lost_ends_its_lease(proxied: Proxied) -> None:
    run = proxied.run()
    box = Sandbox.create(**run)
    Sandbox.kill(box.sandbox_id, **proxied.hosted)
    with pytest.raises(NotFoundException):
        box.get_info()
    eventually(lambda: proxied.occupied(run) == 0, "its slot is free")
    assert "does not know it" in refused(
        proxied.request(run, "GET", f"/sandboxes/{box.sandbox_id}"), 404
    )


def test_creates_that_were_refused_are_not_remembered(proxied: Proxied) -> None:
    run = proxied.run()
    box = Sandbox.create(idempotency_key="kept", **run)
    for number in range(20):
        headers = {"idempotency-key": f"refused-{number}"}
        body = {"templateID": "never", "timeout": 60}
        answer = proxied.request(run, "POST", "/v2/sandboxes", json=body, headers=headers)
        assert answer.status_code >= 400
    assert len(proxied.proxy._made) <= 2  # pyright: ignore[reportPrivateUsage]
    assert Sandbox.create(idempotency_key="kept", **run).sandbox_id == box.sandbox_id
