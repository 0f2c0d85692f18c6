"""Pairs of hold and settle a second, beside the usual way: look at the balance, work, bill later.

The three ledgers do a pair in SQLite (WAL), PostgreSQL (a server of this script, durable commits)
and memory. The yardstick is an HTTP service in a process of its own that answers whether there is
money and takes bills afterwards, without holds: what it lets calls spend beyond the budget, when 16
threads have money for 100 calls, is in the last column, and is 0 where there are holds.

    python perf/ledger.py [--seconds 3] [--json]
"""

import argparse
import itertools
import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar, Protocol, override

from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.ledger import Item, Ledger
from rsigym.platform.memory_ledger import MemoryLedger
from rsigym.platform.open_ledger import open_ledger
from tests.postgres_server import installed, postgres_server

PRICE = 10
THREADS = (1, 16)
_BATCH = 20
WORK_S = 0.001
"""What a call takes in the measurement of overdrafts; none in that of speed."""


class Billing(Protocol):
    """A way to pay for calls."""

    def open(self, account: str, budget: int) -> None: ...

    def pay(self, account: str, call_id: str, work: Callable[[], None]) -> bool:
        """Do a call's work if it can be paid."""
        ...

    def spent(self, account: str) -> int: ...


class Held(Billing):
    """Hold, work, settle."""

    def __init__(self, ledger: Ledger):
        self.ledger = ledger
        self.bill = [Item("inference", "sample", PRICE, "token", 1)]

    @override
    def open(self, account: str, budget: int) -> None:
        self.ledger.open(account, budget)

    @override
    def pay(self, account: str, call_id: str, work: Callable[[], None]) -> bool:
        try:
            self.ledger.hold(account, call_id, PRICE)
        except BudgetExhausted:
            return False
        work()
        self.ledger.settle(call_id, self.bill)
        return True

    @override
    def spent(self, account: str) -> int:
        return self.ledger.balance(account).spent


class Verified(Billing):
    """Ask the service whether there is money, work, send the bill."""

    def __init__(self, port: int):
        self.port = port
        self.local = threading.local()

    @override
    def open(self, account: str, budget: int) -> None:
        self._ask("open", account, budget)

    @override
    def pay(self, account: str, call_id: str, work: Callable[[], None]) -> bool:
        if not self._ask("verify", account, PRICE):
            return False
        work()
        self._ask("bill", account, PRICE)
        return True

    @override
    def spent(self, account: str) -> int:
        return self._ask("spent", account, 0)

    def _ask(self, what: str, account: str, amount: int) -> int:
        if not hasattr(self.local, "connection"):
            self.local.connection = HTTPConnection("127.0.0.1", self.port)
            self.local.connection.connect()
        self.local.connection.request("POST", f"/{what}/{account}/{amount}")
        return int(self.local.connection.getresponse().read())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    lock = threading.Lock()
    budgets: ClassVar[dict[str, int]] = {}
    spent: ClassVar[dict[str, int]] = {}

    def do_POST(self) -> None:
        _, what, account, amount = self.path.split("/")
        with self.lock:
            answer = self._answer(what, account, int(amount))
        body = str(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, what: str, account: str, amount: int) -> int:
        match what:
            case "open":
                self.budgets[account], self.spent[account] = amount, 0
            case "verify":
                return int(self.spent[account] + amount <= self.budgets[account])
            case "bill":
                self.spent[account] += amount
        return self.spent[account]

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _serve(tell: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    tell.send(server.server_address[1])
    server.serve_forever()


@contextmanager
def verify_then_bill() -> Iterator[Verified]:
    """The service, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    port, tell = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=[tell], daemon=True)
    process.start()
    yield Verified(port.recv())
    process.terminate()
    process.join()


def _nothing() -> None:
    """The work of a call whose payment alone is measured."""


def pairs_per_second(billing: Billing, threads: int, seconds: float) -> tuple[float, float]:
    """Calls without work, by so many threads on one account, a second and a second of CPU.

    The CPU time is this process's: all of the work for memory and SQLite, the client's part for the
    others. It shows what an idle core would do where others keep this one busy.
    """
    account = f"speed-{threads}"
    billing.open(account, 10**15)
    start = threading.Barrier(threads + 1)
    done = [0] * threads

    def pay(thread: int) -> None:
        start.wait()
        end = time.perf_counter() + seconds
        for batch in itertools.count():
            # What is measured is the ledger: its clock is read once a batch.
            for call_id in [f"{account}/{thread}/{batch}/{n}" for n in range(_BATCH)]:
                billing.pay(account, call_id, _nothing)
            done[thread] += _BATCH
            if time.perf_counter() >= end:
                return

    workers = [threading.Thread(target=pay, args=[thread]) for thread in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    began, used = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.join()
    pairs = sum(done)
    return pairs / (time.perf_counter() - began), pairs / (time.process_time() - used)


def overspent(billing: Billing) -> float:
    """The share of a budget for 100 calls that 16 threads spend beyond it."""
    billing.open("overdraft", 100 * PRICE)
    start = threading.Barrier(16)

    def pay(thread: int) -> None:
        start.wait()
        for number in itertools.count():
            if not billing.pay("overdraft", f"o/{thread}/{number}", lambda: time.sleep(WORK_S)):
                return

    workers = [threading.Thread(target=pay, args=[thread]) for thread in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return billing.spent("overdraft") / (100 * PRICE) - 1


def measure(seconds: float) -> dict[str, dict[str, float]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ways: dict[str, Billing] = {
            "memory": Held(MemoryLedger()),
            "SQLite": Held(open_ledger(folder)),
        }
        programs = installed()
        if programs is not None:
            url = stack.enter_context(postgres_server(programs))
            ways["PostgreSQL"] = Held(open_ledger(url))
        ways["verify, then bill (HTTP)"] = stack.enter_context(verify_then_bill())
        rows: dict[str, dict[str, float]] = {}
        for name, way in ways.items():
            rows[name] = row = {}
            for threads in THREADS:
                wall, cpu = pairs_per_second(way, threads, seconds)
                row |= {f"pairs_s_{threads}": wall, f"pairs_cpu_s_{threads}": cpu}
            row["overspent"] = overspent(way)
        for way in ways.values():
            if isinstance(way, Held):
                way.ledger.close()
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3, help="for each measurement of speed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = measure(options.seconds)
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'pairs a second':26}{'1 thread':>16}{'16 threads':>20}{'overspent':>14}")
    print(f"{'':26}{'wall':>10}{'CPU':>10}{'wall':>10}{'CPU':>10}")
    for name, row in rows.items():
        *speeds, over = row.values()
        print(f"{name:26}" + "".join(f"{speed:10,.0f}" for speed in speeds) + f"{over:10.0%}")
    print("targets: SQLite 5,000 and memory 200,000 at 1 thread")


if __name__ == "__main__":
    main()
