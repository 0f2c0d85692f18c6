"""Sandboxes of an agent's: what they do, what they cost, and what is said when they are gone."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from e2b import Sandbox

from rsigym.local.e2b.process import E2BServer
from rsigym.local.e2b.process import e2b_server as start_server
from rsigym.operations.json_value import json_size
from rsigym.platform.evidence import MAX_EVIDENCE
from rsigym.platform.journal import JOURNAL
from rsigym.platform.outcome import Status
from rsigym.platform.permissions import Permissions, SandboxGrant
from rsigym.platform.reconcile import reconcile
from rsigym.platform.tracks import OFFLINE
from rsigym.services.e2b_client import E2BAddress
from tests.hop import Hop
from tests.services.sandbox_bench import SECOND, SHORT, SandboxRun, eventually, open_ledger

type Open = Callable[..., SandboxRun]


def address(server: E2BServer) -> E2BAddress:
    return E2BAddress(server.url, server.api_key, server.url)


def upstream(server: E2BServer) -> list[str]:
    options = address(server)._asdict()
    return [info.sandbox_id for info in Sandbox.list(**options).next_items()]


@pytest.fixture
def open_run(e2b_server: E2BServer, tmp_path: Path) -> Iterator[Open]:
    """Opens runs; at the end nothing of theirs may be left, in any book."""
    opened: list[SandboxRun] = []

    def make(**settings: Any) -> SandboxRun:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        where = settings.pop("address", lambda: address(e2b_server))
        opened.append(SandboxRun(folder, where, **settings))
        return opened[-1]

    yield make
    for run in opened:
        run.close()
    assert upstream(e2b_server) == []


@pytest.fixture
def run(open_run: Open) -> SandboxRun:
    return open_run()


def test_a_command_answers_its_exit_code_and_both_streams(run: SandboxRun) -> None:
    box = run.create()
    answer = run.ask(
        "sandbox.run",
        sandbox=box,
        command="pwd; echo $GREETING >&2; exit 3",
        cwd="/tmp",
        env={"GREETING": "hello"},
    )
    assert answer == {"exit_code": 3, "stdout": "/tmp\n", "stderr": "hello\n"}


def test_files_are_written_extended_and_read_in_pieces(run: SandboxRun) -> None:
    box = run.create()
    for content, append in (("äöü", False), ("line 2\n", True), ("", True)):
        run.ask("sandbox.write", sandbox=box, path="data/it's.txt", content=content, append=append)
    first = run.ask("sandbox.read", sandbox=box, path="data/it's.txt", limit=4)
    assert first == {"content": "äöül", "offset": 0, "next_offset": 4}
    rest = run.ask("sandbox.read", sandbox=box, path="data/it's.txt", offset=4)
    assert rest == {"content": "ine 2\n", "offset": 4, "next_offset": None}
    beyond = run.ask("sandbox.read", sandbox=box, path="data/it's.txt", offset=99)
    assert (beyond["content"], beyond["next_offset"]) == ("", None)
    run.ask("sandbox.write", sandbox=box, path="data/it's.txt", content="new")
    assert run.ask("sandbox.read", sandbox=box, path="data/it's.txt")["content"] == "new"


@pytest.mark.parametrize(
    ("op", "args", "says"),
    [
        ("sandbox.read", {"path": "nothing"}, "nothing"),
        ("sandbox.read", {"path": "/tmp"}, ""),
        ("sandbox.read", {"path": "/bin/bash"}, "not UTF-8"),
        ("sandbox.write", {"path": "/tmp", "content": "x"}, ""),
        ("sandbox.write", {"path": "/tmp", "content": "x", "append": True}, "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_the_agent_s_to_mend(
    run: SandboxRun, op: str, args: dict[str, Any], says: str
) -> None:
    error = run.fail(Status.INVALID, op, sandbox=run.create(), **args)
    assert (error["side"], says in str(error["message"])) == ("agent", True)


def test_more_output_than_an_observation_holds_is_cut_in_the_middle(run: SandboxRun) -> None:
    flood = "print('first'); print('x' * 3_000_000); print('\\x01\\U0001f600' * 200_000)"
    answer = run.ask(
        "sandbox.run", sandbox=run.create(), command=f'python3 -c "{flood}"; echo last; ls /no >&2'
    )
    assert json_size(answer) or MAX_EVIDENCE > 0
    assert answer["stdout"].startswith("first\nx")
    assert answer["stdout"].endswith("\nlast\n")
    assert f"[… {answer['cut']['stdout']:,} characters …]" in answer["stdout"]
    assert answer["cut"]["stderr"] == 0
    assert "/no" in answer["stderr"]


def test_a_command_that_takes_too_long_is_killed_and_its_output_kept(run: SandboxRun) -> None:
    box = run.create()
    error = run.fail(
        Status.TIMEOUT,
        "sandbox.run",
        sandbox=box,
        command="echo begun; sleep 300",
        timeout_s=0.5,
    )
    assert (error["side"], error["stdout"]) == ("sandbox", "begun\n")
    # The server kills it by its own clock, which may be a little behind.
    command = "timeout 60 bash -c \"while pgrep -xf 'sleep 300' > /dev/null; do :; done\""
    assert run.ask("sandbox.run", sandbox=box, command=command)["exit_code"] == 0


def test_only_the_time_of_a_sandbox_costs(run: SandboxRun) -> None:
    answer = run.ask("sandbox.create", timeout_s=300)
    assert answer == {
        "sandbox": "sandbox-1",
        "internet": False,
        "template": "base",
        "timeout_s": 300,
        "usd_per_hour": 3.6,
    }
    assert run.ledger.balance("run").held == 60 * SECOND
    assert run.call("sandbox.run", sandbox="sandbox-1", command="true").cost == 0
    killed = run.ask("sandbox.kill", sandbox="sandbox-1")
    balance = run.ledger.balance("run")
    assert killed["state"] == "cancelled"
    assert killed["cost_usd"] == balance.spent / 1e9 > 0
    assert balance.held == 0
    (entry,) = run.ledger.entries("run")
    assert (entry.item.service, entry.item.unit) == ("sandbox", "millisecond")
    assert run.ask("sandbox.kill", sandbox="sandbox-1") == killed


def test_a_quote_is_the_whole_time_and_holds_its_beginning(run: SandboxRun) -> None:
    quote = run.ask("budget.quote", call={"op": "sandbox.create", "args": {"timeout_s": 3600}})
    assert (quote["worst_usd"], quote["held_at_start_usd"]) == (3.6, 0.06)
    assert (quote["affordable"], quote["fits_whole"]) == (True, False)
    assert run.slots.occupied.sandboxes == 0


def test_a_sandbox_that_was_killed_says_so(run: SandboxRun) -> None:
    box = run.create()
    run.ask("sandbox.kill", sandbox=box)
    error = run.fail(Status.INVALID, "sandbox.run", sandbox=box, command="ls")
    assert "sandbox-1 is gone: it was killed" in error["message"]


def test_a_sandbox_whose_time_was_up_says_so(run: SandboxRun) -> None:
    box = run.create(timeout_s=1)
    eventually(lambda: not run.jobs.running(), "its time is up")
    error = run.fail(Status.INVALID, "sandbox.read", sandbox=box, path="x")
    assert "its 1 s were over" in error["message"]


def test_a_command_that_outlives_its_sandbox_says_why(run: SandboxRun) -> None:
    box = run.create(timeout_s=2)
    error = run.fail(Status.INVALID, "sandbox.run", sandbox=box, command="sleep 300")
    assert "its 2 s were over" in error["message"]


def test_a_sandbox_that_the_budget_could_not_pay_for_says_so(open_run: Open) -> None:
    run = open_run(budget=3 * SECOND, terms=SHORT)
    answer = run.ask("sandbox.create", timeout_s=600)
    assert answer["timeout_s"] == 3
    eventually(lambda: not run.jobs.running(), "the money is spent")
    error = run.fail(Status.INVALID, "sandbox.run", sandbox=answer["sandbox"], command="ls")
    assert "the budget could not pay for more of its time" in error["message"]
    balance = run.ledger.balance("run")
    assert (balance.spent, balance.held) == (3 * SECOND, 0)
    assert run.jobs.all()[0].state == "exhausted"
    run.fail(Status.UNAFFORDABLE, "sandbox.create")


def test_a_lease_is_renewed_while_there_is_money(open_run: Open) -> None:
    run = open_run(terms=SHORT)
    box = run.create()
    eventually(lambda: run.ledger.balance("run").spent >= 4 * SECOND, "two pieces are used up")
    assert run.ask("sandbox.run", sandbox=box, command="echo here")["stdout"] == "here\n"


def test_parallel_creates_get_exactly_the_free_slots(open_run: Open) -> None:
    run = open_run(permissions=Permissions(sandbox=SandboxGrant(max_sandboxes=3)))
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: run.call("sandbox.create"), range(8)))
    assert sorted(outcome.status for outcome in outcomes) == [Status.OK] * 3 + [Status.REFUSED] * 5
    refusal: Any = next(each.evidence for each in outcomes if each.status is Status.REFUSED)
    assert refusal["error"]["rule"] == "sandbox.max_sandboxes"
    assert len(run.jobs.all()) == 3
    run.ask("sandbox.kill", sandbox="sandbox-2")
    run.create()


def test_offline_revokes_the_internet(open_run: Open) -> None:
    run = open_run(permissions=OFFLINE)
    error = run.fail(Status.REFUSED, "sandbox.create", internet=True)
    assert (error["rule"], error["source"]) == ("sandbox.internet", "Offline")
    run.create(internet=False)


def test_what_a_run_may_not_have_any_more_is_taken_away(run: SandboxRun) -> None:
    online, offline = run.create(internet=True), run.create()
    run.run.narrow(OFFLINE)
    error = run.fail(Status.REFUSED, "sandbox.run", sandbox=online, command="ls")
    assert error["rule"] == "sandbox.internet"
    run.jobs.all()[0].join()
    assert run.slots.occupied.sandboxes == 1
    run.ask("sandbox.run", sandbox=offline, command="ls")


def test_a_template_that_is_not_there_costs_nothing(run: SandboxRun) -> None:
    error = run.fail(Status.INVALID, "sandbox.create", template="gpu")
    assert "gpu" in error["message"]
    run.jobs.all()[0].join()
    balance = run.ledger.balance("run")
    assert (balance.spent, balance.held, run.slots.occupied.sandboxes) == (0, 0, 0)


def test_nobody_waits_for_a_sandbox_to_end(run: SandboxRun) -> None:
    box = run.create()
    assert run.jobs.wait(None, timeout_s=60) == []
    assert [job.handle for job in run.jobs.wait([box], timeout_s=0)] == [box]


def test_a_handle_that_was_never_given_out_is_told_so(run: SandboxRun) -> None:
    error = run.fail(Status.INVALID, "sandbox.run", sandbox="sandbox-7", command="ls")
    assert "no such handle 'sandbox-7'" in error["message"]


def test_the_end_of_a_run_ends_its_sandboxes(run: SandboxRun, e2b_server: E2BServer) -> None:
    for _ in range(3):
        run.create()
    assert len(upstream(e2b_server)) == 3
    run.jobs.close()
    assert upstream(e2b_server) == []
    assert run.ledger.balance("run").held == 0
    run.fail(Status.INVALID, "sandbox.create")


def test_a_server_that_dies_is_told_and_the_next_sandbox_is_made_elsewhere(
    open_run: Open, e2b_server: E2BServer
) -> None:
    with start_server() as other:
        where = [address(other)]
        run = open_run(address=lambda: where[0])
        lost, idle = run.create(), run.create()
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        where[0] = address(e2b_server)
        error = run.fail(Status.FAILED, "sandbox.run", sandbox=lost, command="ls")
        assert error["side"] in ("provider", "sandbox")
        box = run.create()
        assert run.ask("sandbox.run", sandbox=box, command="echo hi")["stdout"] == "hi\n"
        run.ask("sandbox.kill", sandbox=idle)


def test_a_create_without_an_answer_leaves_nothing(open_run: Open, e2b_server: E2BServer) -> None:
    run = open_run(address=lambda: E2BAddress(hop.url, e2b_server.api_key, e2b_server.url))
    hop = Hop(e2b_server.url, spoil={"POST /v2/sandboxes ": None})
    run.loop.run(hop.start())
    error = run.fail(Status.FAILED, "sandbox.create")
    assert error["side"] == "provider"
    run.jobs.all()[0].join()
    assert len(hop.lines("POST /v2/sandboxes ")) == 1
    assert upstream(e2b_server) == []
    balance = run.ledger.balance("run")
    assert (balance.spent, balance.held, run.slots.occupied.sandboxes) == (0, 0, 0)
    run.loop.run(hop.stop())


def test_what_a_killed_platform_held_is_booked_and_its_sandbox_ends_by_itself(
    tmp_path: Path, e2b_server: E2BServer
) -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.services.sandbox_bench",
            str(tmp_path),
            e2b_server.url,
            e2b_server.api_key,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.kill()
    child.wait()
    child.stdout.close()
    ledger = open_ledger(tmp_path)
    held = ledger.balance("run").held
    done = reconcile(ledger, "run", tmp_path / JOURNAL)
    assert {each.how for each in done} <= {"booked at what it held", "settled as recorded"}
    assert sum(each.amount for each in done) == held > 0
    assert ledger.open_holds("run") == []
    ledger.close()
    eventually(lambda: upstream(e2b_server) == [], "its server has ended it")
