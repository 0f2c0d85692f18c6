"""Who may do what: one grant per service, and a lattice of them that can only narrow.

`a & b` allows no more than either. A grant that is None revokes its service. Matching is
type-strict: `True` is not `1`, and `1` is not `1.0`. What was combined stays known, so that a
refusal can say whose rule it is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from rsigym.operations import OPERATIONS, Operation
from rsigym.operations.evaluation import EvaluationSubmit
from rsigym.operations.inference import InferenceChat
from rsigym.operations.rollout import RolloutChat
from rsigym.operations.run import RunSubmit
from rsigym.operations.sandbox import SandboxCreate
from rsigym.operations.training import TrainingSubmit
from rsigym.platform.decision import Decision, Found, Occupied, allow
from rsigym.platform.grants import (
    CHECKPOINTS,
    EvaluationGrant,
    InferenceGrant,
    RolloutGrant,
    SandboxGrant,
    decide_name,
)
from rsigym.platform.settings import with_settings
from rsigym.platform.training_grant import TrainingGrant

__all__ = [
    "CHECKPOINTS",
    "Decision",
    "EvaluationGrant",
    "InferenceGrant",
    "Permissions",
    "RolloutGrant",
    "SandboxGrant",
    "TrainingGrant",
]

_SERVICES = ("training", "inference", "rollout", "evaluation", "sandbox")


class Permissions(BaseModel, extra="forbid", frozen=True):
    """One grant per service, or None where it is revoked. Frozen, hashable and JSON-able.

    Attributes:
        source: Who says so: a track's name, or "experiment".
        parts: What this is the combination of, in an order of its own; `&` fills it.
    """

    training: TrainingGrant | None = TrainingGrant()
    inference: InferenceGrant | None = InferenceGrant()
    rollout: RolloutGrant | None = RolloutGrant()
    evaluation: EvaluationGrant | None = EvaluationGrant()
    sandbox: SandboxGrant | None = SandboxGrant()
    source: Annotated[str, Field(strict=True, min_length=1)] = "experiment"
    parts: tuple["Permissions", ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.parts and _grants(self) != _meet(self.parts):
            raise ValueError("the grants are not what the parts come to together")
        return self

    def __and__(self, other: "Permissions") -> "Permissions":
        """What both allow."""
        parts = {part for each in (self, other) for part in each._atoms() if not part._is_open}
        match sorted(parts, key=lambda part: part.model_dump_json()):
            case []:
                return min(self, other, key=lambda each: each.source)
            case [only]:
                return only
            case ordered:
                source = _together(part.source for part in ordered)
                return Permissions(**_meet(ordered), source=source, parts=tuple(ordered))

    @property
    def sources(self) -> tuple[str, ...]:
        """Everyone whose rules these are."""
        return tuple(sorted({part.source for part in self._atoms()}))

    @property
    def internet(self) -> bool:
        """Whether sandboxes and trials may reach what they, or their tasks, ask for."""
        return self.sandbox is not None and self.sandbox.internet

    def grants(self, operation: type[Operation]) -> bool:
        """Whether the services that the operation needs are granted; what masks show."""
        return self._closed[operation] is None

    def explain(self, operation: Operation) -> Decision:
        """The rule that decides about a call, as far as the call itself tells."""
        if type(operation) not in _LIMITED and self.grants(type(operation)):
            return allow(operation.service, self.source)
        return self._sourced(lambda part: part._decide(operation))

    def explain_found(
        self, operation: Operation, found: Found | Occupied | None, initial: str | None
    ) -> Decision:
        """The rule that decides about what a call names, once its service has looked.

        Args:
            found: What the service found; a fixed harness allows none that was not found, and a
                limit of sandboxes none that were not counted.
            initial: Content id of the initial harness; where there is none, none is allowed.
        """
        if type(operation) not in _LOOKED_INTO:
            return allow(operation.service, self.source)
        return self._sourced(lambda part: part._decide_found(operation, found, initial))

    def fill(self, operation: Operation) -> Operation:
        """The call with every locked setting at its value."""
        if isinstance(operation, TrainingSubmit) and self.training and self.training.lock:
            return with_settings(operation, self.training.lock)
        return operation

    def _atoms(self) -> tuple["Permissions", ...]:
        return self._combined or (self,)

    @cached_property
    def _combined(self) -> tuple["Permissions", ...]:
        """What this comes from, down to what is no combination; empty where it is none itself."""
        return tuple(atom for part in self.parts for atom in part._atoms())

    @property
    def _is_open(self) -> bool:
        return _grants(self) == _grants(_OPEN)

    def _sourced(self, decide: Callable[["Permissions"], Decision]) -> Decision:
        """The decision, and whose it is: allowed only where every part allows it by itself."""
        decision = decide(self)
        each = [decide(part) for part in self._combined] or [decision]
        if decision.allowed and all(one.allowed for one in each):
            return allow(decision.rule, self.source)
        refusals = [
            (part.source, refusal)
            for part, refusal in zip(self._atoms(), each, strict=True)
            if not refusal.allowed
        ]
        if decision.allowed:
            decision = refusals[0][1]
        by_rule = [source for source, refusal in refusals if refusal.rule == decision.rule]
        # Where no part refuses by itself, what they lock differs: it takes all of them.
        source = _together(by_rule or [source for source, _ in refusals]) or self.source
        return replace(decision, source=source)

    @cached_property
    def _closed(self) -> Mapping[type[Operation], str | None]:
        """By operation, the service without which it can do nothing, where that is revoked."""
        return {operation: self._missing(operation) for operation in OPERATIONS.values()}

    def _missing(self, operation: type[Operation]) -> str | None:
        """The service without which the operation can do nothing, where it is revoked.

        Inference or rollout that is left without a model is as good as revoked, and so are
        sandboxes of which there may be none.
        """
        needed: tuple[str, ...] = (operation.service,)
        if issubclass(operation, EvaluationSubmit | RunSubmit):
            needed = (operation.service, "evaluation", "inference")
        for name in needed:
            if getattr(self, name, True) is None:
                return name
        if issubclass(operation, SandboxCreate) and _granted(self.sandbox).is_empty:
            return "sandbox"
        if issubclass(operation, RolloutChat):
            return "rollout" if _granted(self.rollout).models == () else None
        asks_models = issubclass(operation, InferenceChat | EvaluationSubmit | RunSubmit)
        return "inference" if asks_models and _granted(self.inference).models == () else None

    def _decide(self, operation: Operation) -> Decision:
        closed = self._closed[type(operation)]
        if closed is not None:
            message = f"the {closed} service is revoked in this run"
            return Decision(allowed=False, rule=closed, message=message)
        match operation:
            case TrainingSubmit():
                return _granted(self.training).explain(operation)
            case InferenceChat():
                return self._decide_model(operation.model)
            case RolloutChat():
                models = _granted(self.rollout).models
                return decide_name("rollout.models", "model", operation.model, models)
            case EvaluationSubmit() | RunSubmit():
                decision = self._decide_model(operation.model)
                if not decision.allowed or operation.benchmark is None:
                    return decision
                return self._decide_benchmark(operation.benchmark)
            case SandboxCreate():
                return _granted(self.sandbox).explain(operation)
            case _:
                return allow(operation.service)

    def _decide_found(
        self, operation: Operation, found: Found | Occupied | None, initial: str | None
    ) -> Decision:
        if isinstance(operation, SandboxCreate):
            count = found.sandboxes if isinstance(found, Occupied) else None
            return _granted(self.sandbox).explain_one_more(count)
        assert isinstance(operation, EvaluationSubmit | RunSubmit)
        decision = allow(operation.service)
        if isinstance(found, Found):
            decision = self._decide_benchmark(found.benchmark)
        if not decision.allowed or _granted(self.evaluation).harness == "open":
            return decision
        if isinstance(found, Found) and found.harness == initial:
            return allow("evaluation.harness")
        message = (
            f"harness {operation.harness!r} is not the initial harness, and no other is allowed in "
            "this run; it must be the same in every file"
        )
        return Decision(allowed=False, rule="evaluation.harness", message=message)

    def _decide_model(self, model: str) -> Decision:
        return decide_name("inference.models", "model", model, _granted(self.inference).models)

    def _decide_benchmark(self, benchmark: str) -> Decision:
        benchmarks = _granted(self.evaluation).benchmarks
        return decide_name("evaluation.benchmarks", "benchmark", benchmark, benchmarks)


def _granted[G](grant: G | None) -> G:
    """The grant of a service that was found to have one."""
    assert grant is not None
    return grant


def _grants(permissions: Permissions) -> dict[str, Any]:
    return {service: getattr(permissions, service) for service in _SERVICES}


def _meet(parts: Iterable[Permissions]) -> dict[str, Any]:
    """The grants of all parts together."""
    first, *others = map(_grants, parts)
    for other in others:
        for service, grant in other.items():
            mine = first[service]
            first[service] = None if mine is None or grant is None else mine & grant
    return first


def _together(sources: Iterable[str]) -> str:
    return " and ".join(sorted({*sources}))


_LOOKED_INTO = frozenset({EvaluationSubmit, RunSubmit, SandboxCreate})
"""Operations that are decided about once more when their service has looked."""

_LIMITED = _LOOKED_INTO | {TrainingSubmit, InferenceChat, RolloutChat}
"""Operations about which a grant says more than whether there is one."""

_OPEN = Permissions()
