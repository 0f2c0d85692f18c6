"""The one pipeline that every door leads into.

validate → permit → quote and hold → journal → do → settle → record, in this order: a call that is
turned away at any of the first three has cost nothing and changed nothing. Permissions are asked
twice: about the call, and about the system that its files turned out to be.
"""

import itertools
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from rsigym.operations import Operation
from rsigym.operations.json_value import Json
from rsigym.platform.budget import BudgetService
from rsigym.platform.decision import Decision
from rsigym.platform.errors import Failure, Refused, ServiceFailure
from rsigym.platform.evidence import bounded
from rsigym.platform.ledger import Ledger
from rsigym.platform.meter import Meter
from rsigym.platform.money import to_usd
from rsigym.platform.outcome import Outcome, Status, status_of
from rsigym.platform.parse import parse
from rsigym.platform.permissions import Permissions
from rsigym.platform.records import Records
from rsigym.platform.service import Evidence, Prepared, Service

__all__ = ["Run"]


class Run:
    """One run: its permissions, its account and the services behind it.

    `call` may be used from several threads at once.

    Args:
        run_id: The name of the run and of its account in the ledger.
        folder: The run folder; the journal and the records are written below it.
        permissions: What is allowed; they can be narrowed and never widened.
        ledger: Where the run's account is open.
        services: Who does what, by the first half of an operation's name.
        harness: Content id of the initial harness, for permissions that fix it.
    """

    def __init__(
        self,
        run_id: str,
        folder: Path,
        permissions: Permissions,
        ledger: Ledger,
        services: Mapping[str, Service],
        harness: str | None = None,
    ):
        self.id = run_id
        self.folder = folder
        self.ledger = ledger
        self._permissions = permissions
        self._narrowing = threading.Lock()
        self.services: Mapping[str, Service] = {
            "budget": BudgetService(ledger, run_id, self.prepare),
            **services,
        }
        self.records = Records(folder)
        self._harness = harness
        self._numbers = itertools.count(1)

    @property
    def permissions(self) -> Permissions:
        """What is allowed now."""
        return self._permissions

    def narrow(self, permissions: Permissions) -> None:
        """From now on only what both the old and the given permissions allow."""
        with self._narrowing:
            self._permissions &= permissions

    def call(self, call: object) -> Outcome:
        """Make a call: `{"op": …, "args": {…}}` or an `Operation`.

        Never raises because of what the caller asked or a service failed to do.
        """
        record = f"{next(self._numbers):06d}"
        meter = Meter(self.ledger, self.id, f"{self.id}/{record}")
        started = time.time()
        try:
            operation, prepared = self.prepare(call)
            evidence = self._perform(operation, prepared, meter)
            status = Status.OK
        except Failure as failure:
            evidence, status = failure.evidence(), status_of(failure)
        evidence = bounded(evidence, self.folder / "workspace" / "evidence" / f"{record}.json")
        outcome = Outcome(status, evidence, 0 if meter.detached else meter.spent, record)
        self._record(call, outcome, started)
        return outcome

    def prepare(self, call: object) -> tuple[Operation, Prepared]:
        """Validate, permit and price a call without making it.

        Raises:
            Failure: It is not valid, not allowed, or names what does not exist.
        """
        operation, permissions = parse(call), self.permissions
        _require(permissions.explain(operation))
        try:
            prepared = self.services[operation.service].prepare(permissions.fill(operation))
        except Failure:
            raise
        except Exception as error:
            raise _platform_fault(operation, error) from error
        _require(permissions.explain_found(operation, prepared.found, self._harness))
        return operation, prepared

    def _perform(self, operation: Operation, prepared: Prepared, meter: Meter) -> Evidence:
        """Hold, journal, do and settle. What was charged before a failure stands."""
        paid = operation.paid
        if paid:
            self.ledger.hold(meter.account, meter.call_id, prepared.quote.hold)
        event: dict[str, Json] = {"call": meter.call_id, "op": operation.op}
        self.records.journal({"event": "begin", **event}, durable=paid)
        try:
            return prepared.perform(meter)
        except Failure:
            raise
        except Exception as error:
            raise _platform_fault(operation, error) from error
        finally:
            if paid and not meter.detached:
                meter.settle()
            self.records.journal({"event": "end", **event}, durable=False)

    def _record(self, call: object, outcome: Outcome, started: float) -> None:
        self.records.write(
            outcome.record,
            {
                "call": call.to_call() if isinstance(call, Operation) else _jsonable(call),
                "status": outcome.status.name,
                "evidence": outcome.evidence,
                "cost_usd": to_usd(outcome.cost),
                "started": started,
                "seconds": time.time() - started,
            },
        )

    def close(self) -> None:
        """Stop what runs, wait until it has stopped, and let go of every file; twice is fine."""
        for service in self.services.values():
            service.close()
        self.records.close()


def _require(decision: Decision) -> None:
    if not decision.allowed:
        raise Refused(
            decision.message,
            rule=decision.rule,
            source=decision.source,
            allowed=[*decision.options],
        )


def _platform_fault(operation: Operation, error: Exception) -> ServiceFailure:
    """Our own bug, as evidence: the episode goes on and the agent sees that it is not to blame."""
    return ServiceFailure(
        f"{operation.op} failed inside the platform ({type(error).__name__}: {error}); "
        "this is not your call's fault"
    )


def _jsonable(value: object, depth: int = 64) -> Json:
    """Whatever an agent sent, in a form that can be written down, and not deeper than `depth`."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple() if depth:
            return [_jsonable(each, depth - 1) for each in value]
        case dict() if depth:
            return {str(key): _jsonable(each, depth - 1) for key, each in value.items()}
        case list() | tuple() | dict():
            return "…"
        case _:
            return repr(value)
