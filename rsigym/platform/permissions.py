"""Who may do what: one grant per service, and a lattice of them that can only narrow.

`a & b` is never wider than either. A grant that is None revokes its service. Matching is
type-strict: `True` is not `1`, and `1` is not `1.0`.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from rsigym.operations import Operation
from rsigym.operations.evaluation import EvaluationSubmit
from rsigym.operations.inference import InferenceChat
from rsigym.operations.json_value import Json
from rsigym.operations.run import RunSubmit
from rsigym.operations.training import TrainingSubmit
from rsigym.platform.settings import DEFAULTS, normal, same, settings, with_settings

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

CHECKPOINTS = "tinker://*"
"""In a list of models: every checkpoint that the run has trained."""

type Names = Literal["*"] | tuple[str, ...]


class _Grant(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TrainingGrant(_Grant):
    """Which settings of `training.submit` are open, restricted to values, or locked.

    Attributes:
        allow: "*", or the settings that may differ from their defaults: True for any value, or
            the values. A setting is a path such as "lora_config.rank".
        lock: Settings with the one value that they have, given or not.
    """

    allow: Literal["*"] | dict[str, Literal[True] | tuple[Json, ...]] = "*"
    lock: dict[str, Json] = {}

    @field_validator("allow")
    @classmethod
    def _normal_values(
        cls, allow: Literal["*"] | dict[str, Literal[True] | tuple[Json, ...]]
    ) -> Literal["*"] | dict[str, Literal[True] | tuple[Json, ...]]:
        if allow == "*":
            return allow
        for path in allow:
            normal(path, DEFAULTS.get(path))
        return {
            path: values if values is True else tuple(normal(path, value) for value in values)
            for path, values in allow.items()
        }

    @field_validator("lock")
    @classmethod
    def _normal_locks(cls, lock: dict[str, Json]) -> dict[str, Json]:
        return {path: normal(path, value) for path, value in lock.items()}

    def values(self, path: str) -> tuple[Json, ...] | None:
        """The values that a setting may have; None for any."""
        if path in self.lock:
            return (self.lock[path],)
        if self.allow == "*":
            return None
        allowed = self.allow.get(path, (DEFAULTS[path],))
        return None if allowed is True else allowed

    def explain(self, call: TrainingSubmit) -> "Decision":
        """The setting that decides about a call."""
        for path, value, given in settings(call):
            values = self.values(path)
            locked = path in self.lock
            if values is None or (locked and not given) or _among(value, values):
                continue
            rule = f"training.{'lock' if locked else 'allow'}.{path}"
            return _refuse(rule, path, value, values)
        return Decision(allowed=True, rule="training.allow")

    def __and__(self, other: "TrainingGrant") -> "TrainingGrant | None":
        """Both together; None where that leaves a setting without a value."""
        lock: dict[str, Json] = {}
        allow: dict[str, Literal[True] | tuple[Json, ...]] = {}
        for path in DEFAULTS:
            values = _both_values(self.values(path), other.values(path))
            if values == ():
                return None
            if values is not None and (path in self.lock or path in other.lock):
                lock[path] = values[0]
            else:
                allow[path] = True if values is None else values
        is_open = self.allow == other.allow == "*"
        return TrainingGrant(allow="*" if is_open else allow, lock=lock)


class InferenceGrant(_Grant):
    """The models that may be asked, evaluated and submitted; `CHECKPOINTS` for the run's own."""

    models: Names = "*"

    def __and__(self, other: "InferenceGrant") -> "InferenceGrant":
        return InferenceGrant(models=_both_names(self.models, other.models))


class RolloutGrant(_Grant):
    """The frontier models that may be asked."""

    models: Names = "*"

    def __and__(self, other: "RolloutGrant") -> "RolloutGrant":
        return RolloutGrant(models=_both_names(self.models, other.models))


class EvaluationGrant(_Grant):
    """The benchmarks that may be evaluated, and whether the harness may be changed."""

    benchmarks: Names = "*"
    harness: Literal["open", "fixed"] = "open"

    def __and__(self, other: "EvaluationGrant") -> "EvaluationGrant":
        return EvaluationGrant(
            benchmarks=_both_names(self.benchmarks, other.benchmarks),
            harness="open" if self.harness == other.harness == "open" else "fixed",
        )


class SandboxGrant(_Grant):
    """Sandboxes of the agent's own, and whether they and the trials may reach the internet."""

    internet: bool = False
    max_sandboxes: Annotated[int, Field(ge=0)] = 8
    templates: Names = "*"

    def __and__(self, other: "SandboxGrant") -> "SandboxGrant":
        return SandboxGrant(
            internet=self.internet and other.internet,
            max_sandboxes=min(self.max_sandboxes, other.max_sandboxes),
            templates=_both_names(self.templates, other.templates),
        )


class Decision(BaseModel):
    """Whether a call is allowed, and what decides.

    Attributes:
        rule: The grant's field that decides, such as "training.lock.base_model".
        message: One sentence: what is not allowed and what would be.
    """

    model_config = ConfigDict(frozen=True)

    allowed: bool
    rule: str
    message: str = ""


class Permissions(BaseModel):
    """One grant per service, or None where it is revoked. Frozen and JSON-able."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    training: TrainingGrant | None = TrainingGrant()
    inference: InferenceGrant | None = InferenceGrant()
    rollout: RolloutGrant | None = RolloutGrant()
    evaluation: EvaluationGrant | None = EvaluationGrant()
    sandbox: SandboxGrant | None = SandboxGrant()

    def __and__(self, other: "Permissions") -> "Permissions":
        """What both allow."""
        return Permissions(
            training=_both(self.training, other.training),
            inference=_both(self.inference, other.inference),
            rollout=_both(self.rollout, other.rollout),
            evaluation=_both(self.evaluation, other.evaluation),
            sandbox=_both(self.sandbox, other.sandbox),
        )

    def grants(self, operation: type[Operation]) -> bool:
        """Whether any call of the operation can be allowed; what masks and tool lists show."""
        return getattr(self, operation.service, True) is not None

    def explain(self, operation: Operation) -> Decision:
        """The rule that decides about a call."""
        if not self.grants(type(operation)):
            return Decision(
                allowed=False,
                rule=operation.service,
                message=_revoked(operation.service),
            )
        match operation:
            case TrainingSubmit():
                return _granted(self.training).explain(operation)
            case InferenceChat():
                return self._explain_model(operation.model)
            case EvaluationSubmit() | RunSubmit():
                return self._explain_system(operation)
            case _:
                return Decision(allowed=True, rule=operation.service)

    def fill(self, operation: Operation) -> Operation:
        """The call with every locked setting at its value."""
        if isinstance(operation, TrainingSubmit) and self.training and self.training.lock:
            return with_settings(operation, self.training.lock)
        return operation

    def _explain_model(self, model: str) -> Decision:
        return _explain_name("inference.models", "model", model, _granted(self.inference).models)

    def _explain_system(self, operation: EvaluationSubmit | RunSubmit) -> Decision:
        if self.inference is None:
            return Decision(allowed=False, rule="inference", message=_revoked("inference"))
        decision = self._explain_model(operation.model)
        if not decision.allowed or self.evaluation is None or operation.benchmark is None:
            return decision
        benchmarks = self.evaluation.benchmarks
        return _explain_name("evaluation.benchmarks", "benchmark", operation.benchmark, benchmarks)


def _revoked(service: str) -> str:
    return f"the {service} service is revoked in this track"


def _granted[G](grant: G | None) -> G:
    """The grant of a service that was found to have one."""
    assert grant is not None
    return grant


def _both[G: (TrainingGrant, InferenceGrant, RolloutGrant, EvaluationGrant, SandboxGrant)](
    a: G | None, b: G | None
) -> G | None:
    return None if a is None or b is None else a & b


def _admits(names: Names, name: str) -> bool:
    if names == "*" or name in names:
        return True
    return CHECKPOINTS in names and name.startswith("tinker://")


def _both_names(a: Names, b: Names) -> Names:
    if a == "*":
        return b
    if b == "*":
        return a
    return tuple(sorted({name for name in (*a, *b) if _admits(a, name) and _admits(b, name)}))


def _both_values(a: tuple[Json, ...] | None, b: tuple[Json, ...] | None) -> tuple[Json, ...] | None:
    if a is None or b is None:
        return b if a is None else a
    return tuple(value for value in a if _among(value, b))


def _among(value: Json, values: Sequence[Json]) -> bool:
    return any(same(value, each) for each in values)


def _explain_name(rule: str, what: str, name: str, names: Names) -> Decision:
    if _admits(names, name):
        return Decision(allowed=True, rule=rule)
    return _refuse(rule, what, name, names)


def _refuse(rule: str, what: str, value: Json, values: Sequence[Json]) -> Decision:
    allowed = " or ".join(repr(each) for each in values) or "nothing"
    return Decision(
        allowed=False,
        rule=rule,
        message=f"{what} {value!r} is not allowed in this track; allowed: {allowed}",
    )
