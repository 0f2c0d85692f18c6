"""The control plane by the SDK: create, find, list, time, pause, end."""

import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import e2b
import pytest

from tests.local.e2b.sdk import Api
from tests.waiting import eventually


def test_a_new_sandbox_is_what_was_asked_for(api: Api) -> None:
    made = api.Sandbox.create(timeout=60, metadata={"task": "a"}, envs={"COLOUR": "blue"})
    info = made.get_info()
    assert info.sandbox_id == made.sandbox_id
    assert (info.template_id, info.metadata) == ("base", {"task": "a"})
    assert info.state == e2b.SandboxState.RUNNING
    assert timedelta(seconds=50) < info.end_at - info.started_at <= timedelta(seconds=61)
    assert info.cpu_count >= 1
    assert info.memory_mb >= 1
    assert made.commands.run('echo "$COLOUR $E2B_SANDBOX $E2B_SANDBOX_ID"').stdout == (
        f"blue true {made.sandbox_id}\n"
    )
    assert made.is_running()
    assert made.kill() is True
    assert made.kill() is False
    assert not made.is_running()


def test_an_unknown_sandbox_and_template_are_not_found(api: Api) -> None:
    with pytest.raises(e2b.SandboxNotFoundException):
        api.Sandbox.connect("i0000000000000000000")
    with pytest.raises(e2b.SandboxException, match=r"404.*no template 'nowhere'"):
        api.Sandbox.create("nowhere")
    assert api.Sandbox.kill("i0000000000000000000") is False


def test_the_list_is_filtered_ordered_and_paged(api: Api) -> None:
    mark = {"run of": f"ä & b=c% {uuid.uuid4()}"}
    made = [api.Sandbox.create(timeout=60, metadata={**mark, "i": str(i)}) for i in range(3)]
    ids = [it.sandbox_id for it in made]
    query = e2b.SandboxQuery(metadata=mark)
    assert _all(api.Sandbox.list(query=query, limit=2)) == ids[::-1]
    assert _all(api.Sandbox.list(query=query, limit=1, order="asc")) == ids
    pages = api.Sandbox.list(query=query, limit=2)
    assert len(pages.next_items()) == 2
    assert pages.has_next
    assert len(pages.next_items()) == 1
    assert not pages.has_next
    second = e2b.SandboxQuery(metadata={**mark, "i": "1"})
    assert _all(api.Sandbox.list(query=second)) == [ids[1]]
    made[0].pause()
    paused, running = e2b.SandboxState.PAUSED, e2b.SandboxState.RUNNING
    for state, expected in ((paused, ids[:1]), (running, ids[1:])):
        query = e2b.SandboxQuery(metadata=mark, state=[state])
        assert _all(api.Sandbox.list(query=query, order="asc")) == expected
    later = e2b.SandboxQuery(metadata=mark, started_after=datetime.now(UTC) + timedelta(hours=1))
    assert _all(api.Sandbox.list(query=later)) == []
    assert _all(api.Sandbox.list(query=e2b.SandboxQuery(metadata=mark, template="other"))) == []
    assert all(it.kill() for it in made)


def _all(pages: Any) -> list[str]:
    found: list[str] = []
    while pages.has_next:
        found += [info.sandbox_id for info in pages.next_items()]
    return found


def test_a_timeout_is_set_anew_and_connecting_only_extends_it(api: Api, sandbox: Any) -> None:
    sandbox.set_timeout(1000)
    long = sandbox.get_info().end_at
    assert long > datetime.now(UTC) + timedelta(seconds=900)
    again = api.Sandbox.connect(sandbox.sandbox_id, timeout=10)
    assert again.get_info().end_at == long
    api.Sandbox.connect(sandbox.sandbox_id, timeout=2000)
    assert sandbox.get_info().end_at > long
    sandbox.set_timeout(100)
    assert sandbox.get_info().end_at < long
    with pytest.raises(e2b.SandboxException, match="400"):
        sandbox.set_timeout(10**6)


def test_a_sandbox_whose_time_is_up_is_gone(api: Api) -> None:
    made = api.Sandbox.create(timeout=1)
    eventually(lambda: not made.is_running(), "it outlived its time")
    with pytest.raises(e2b.TimeoutException, match="was not found"):
        made.commands.run("true")
    with pytest.raises(e2b.TimeoutException, match="was not found"):
        made.files.read("/etc/hosts")
    with pytest.raises(e2b.SandboxNotFoundException):
        made.get_info()


def test_a_paused_sandbox_stands_still_and_goes_on(api: Api, sandbox: Any) -> None:
    ticking = "i=0; while true; do i=$((i+1)); echo $i > /tmp/ticks; sleep 0.02; done"
    handle = sandbox.commands.run(ticking, background=True)
    eventually(lambda: sandbox.files.exists("/tmp/ticks"), "it does not tick")
    assert sandbox.pause() is True
    assert sandbox.pause() is False
    assert api.Sandbox.list(query=e2b.SandboxQuery(state=[e2b.SandboxState.PAUSED])).next_items()
    assert not sandbox.is_running()
    with pytest.raises(e2b.TimeoutException):
        sandbox.commands.run("true")
    sandbox.connect(timeout=100)
    assert [it.pid for it in sandbox.commands.list()] == [handle.pid]
    before = sandbox.commands.run("cat /tmp/ticks").stdout
    eventually(lambda: sandbox.commands.run("cat /tmp/ticks").stdout != before, "it does not go on")
    assert sandbox.get_info().state == e2b.SandboxState.RUNNING


def test_time_does_not_run_while_paused(api: Api) -> None:
    made = api.Sandbox.create(timeout=2)
    handle = made.commands.run("sleep 60", background=True, timeout=2)
    made.pause()
    time.sleep(2.5)  # longer than both would have lived
    assert made.get_info().state == e2b.SandboxState.PAUSED
    made.connect(timeout=100)
    assert [it.pid for it in made.commands.list()] == [handle.pid]
    eventually(lambda: not made.commands.list(), "the command's time stands still")
    made.kill()


def test_pausing_for_the_files_alone_ends_the_processes(sandbox: Any) -> None:
    sandbox.commands.run("sleep 60", background=True)
    sandbox.files.write("kept", "here")
    sandbox.pause(mode="filesystem")
    sandbox.connect()
    assert sandbox.commands.list() == []
    assert sandbox.files.read("kept") == "here"


def test_a_timeout_can_pause_and_use_can_resume(api: Api) -> None:
    made = api.Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause", "auto_resume": True})
    made.files.write("kept", "here")
    eventually(
        lambda: made.get_info().state == e2b.SandboxState.PAUSED, "its time was up and it runs"
    )
    assert made.files.read("kept") == "here"
    assert made.get_info().state == e2b.SandboxState.RUNNING
    made.kill()


def test_metrics_say_what_it_uses(sandbox: Any) -> None:
    sandbox.commands.run("head -c 1000000 /dev/zero > /tmp/million; sum /tmp/million")
    [sample] = sandbox.get_metrics()
    assert sample.cpu_count >= 1
    assert sample.cpu_used_pct >= 0
    assert 0 < sample.mem_used <= sample.mem_total
    assert sample.disk_used >= 1_000_000
    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert sandbox.get_metrics(end=yesterday) == []


def test_an_idempotency_key_makes_one_sandbox(api: Api) -> None:
    key = str(uuid.uuid4())
    made = [api.Sandbox.create(timeout=60, idempotency_key=key) for _ in range(2)]
    assert made[0].sandbox_id == made[1].sandbox_id
    made[0].kill()
    after = api.Sandbox.create(timeout=60, idempotency_key=key)
    assert after.sandbox_id != made[0].sandbox_id
    after.kill()


@pytest.mark.parametrize(
    "asked", [{"allow_internet_access": True}, {"network": {"allow_out": ["*"]}}]
)
def test_the_internet_stays_closed_whatever_is_asked(api: Api, asked: dict[str, Any]) -> None:
    made = api.Sandbox.create(timeout=60, **asked)
    links = "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '"
    assert made.commands.run(links).stdout == "lo\n"
    made.update_network({"allow_internet_access": True})
    assert made.commands.run(links).stdout == "lo\n"
    assert made.get_info().allow_internet_access is False
    made.kill()


def test_what_is_not_built_says_so(api: Api, sandbox: Any) -> None:
    with pytest.raises(e2b.SandboxException, match=r"501.*does not support POST .*/snapshots"):
        sandbox.create_snapshot()
    with pytest.raises(e2b.SandboxException, match=r"501.*does not support"):
        sandbox.fork()
    with pytest.raises(e2b.SandboxException, match=r"501.*`volumes`"):
        api.Sandbox.create(volume_mounts={"/data": "volume"})
    with pytest.raises(e2b.SandboxException, match=r"501.*`network.rules`"):
        sandbox.update_network({"rules": {"a.example": []}})


def test_a_wrong_key_is_refused(api: Api) -> None:
    with pytest.raises(e2b.AuthenticationException, match="API key"):
        api.Sandbox.create(api_key="e2b_" + "0" * 40)
