"""Permissions: type-strict, explained, and a lattice that only narrows."""

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rsigym.operations import OPERATIONS, Operation
from rsigym.operations.training import TrainingSubmit
from rsigym.platform.decision import Found, Occupied
from rsigym.platform.parse import parse
from rsigym.platform.permissions import (
    CHECKPOINTS,
    EvaluationGrant,
    InferenceGrant,
    Permissions,
    RolloutGrant,
    SandboxGrant,
    TrainingGrant,
)
from rsigym.platform.settings import DEFAULTS

MODELS = ("base", "other")
FRONTIER = ("large", "larger")
SYSTEM_CALLS = ("inference.chat", "rollout.chat", "evaluation.submit", "run.submit")
MINE, THEIRS = "tinker://mine/sampler_weights/final", "tinker://theirs/sampler_weights/final"
INITIAL = "initial"
VALUES: dict[str, list[Any]] = {
    "lora_config.rank": [4, 8, 16],
    "lora_config.train_mlp": [True, False],
    "num_epochs": [1, 2],
    "adam_params.learning_rate": [3e-4, 1e-3],
    "loss_fn_config": [{}, {"a": 1.0}],
    "base_model": [None, *MODELS],
    "init_from": [None, MINE, THEIRS],
}


def training(config: dict[str, Any]) -> TrainingSubmit:
    return TrainingSubmit.model_validate({"data": "d.jsonl", "config": config})


@st.composite
def training_grants(draw: st.DrawFn) -> TrainingGrant:
    """Locks, lists and open settings; those that it does not name keep their defaults."""
    lock: dict[str, Any] = {}
    allow: dict[str, Any] = {}
    for path, values in VALUES.items():
        # Mostly open, so that two grants rarely leave each other nothing.
        match draw(st.sampled_from(["any", "any", "any", "any", "lock", "list", "default"])):
            case "lock":
                lock[path] = draw(st.sampled_from(values))
            case "list":
                allow[path] = draw(st.lists(st.sampled_from(values), min_size=1))
            case "any":
                allow[path] = True
            case _:
                pass
    return TrainingGrant(allow=draw(st.sampled_from(["*", allow])), lock=lock)


def names(*known: str) -> st.SearchStrategy[Any]:
    return st.just("*") | st.lists(st.sampled_from(known))


def permissions() -> st.SearchStrategy[Permissions]:
    models = names(*MODELS, CHECKPOINTS, MINE, THEIRS)
    return st.builds(
        Permissions,
        training=st.none() | st.just(TrainingGrant()) | training_grants(),
        inference=st.none() | st.builds(InferenceGrant, models=models),
        rollout=st.none() | st.builds(RolloutGrant, models=names(*FRONTIER)),
        evaluation=st.none()
        | st.builds(
            EvaluationGrant,
            benchmarks=names("Integers", "Shell"),
            harness=st.sampled_from(["open", "fixed"]),
        ),
        sandbox=st.none()
        | st.builds(
            SandboxGrant,
            internet=st.booleans(),
            max_sandboxes=st.none() | st.integers(0, 4),
            templates=names("a", "b"),
        ),
        source=st.sampled_from(["experiment", "Data", "Joint"]),
    )


@st.composite
def training_calls(draw: st.DrawFn) -> Operation:
    args: dict[str, Any] = {"data": "d", "config": {}}
    for path, values in VALUES.items():
        if draw(st.booleans()):
            *parents, leaf = path.split(".")
            node = args if path == "init_from" else args["config"]
            for parent in parents:
                node = node.setdefault(parent, {})
            node[leaf] = draw(st.sampled_from(values))
    return parse({"op": "training.submit", "args": args})


@st.composite
def system_calls(draw: st.DrawFn) -> Operation:
    op = draw(st.sampled_from(SYSTEM_CALLS))
    models = [*MODELS, MINE, THEIRS] if op != "rollout.chat" else FRONTIER
    args: dict[str, Any] = {"model": draw(st.sampled_from(models))}
    if op.endswith(".chat"):
        args["messages"] = [{"role": "user", "content": "hello"}]
    elif draw(st.booleans()):
        args["benchmark"] = draw(st.sampled_from(["Integers", "Shell"]))
    return parse({"op": op, "args": args})


def other_calls() -> st.SearchStrategy[Operation]:
    return st.sampled_from(
        [
            parse({"op": op, "args": args})
            for op, args in (
                ("training.status", {"handle": "training-1"}),
                ("evaluation.cancel", {"handle": "evaluation-1"}),
                ("inference.models", {}),
                ("rollout.models", {}),
                ("budget.balance", {}),
                ("run.wait", {}),
                ("workspace.read", {"path": "x"}),
                ("sandbox.kill", {"sandbox": "sandbox-1"}),
            )
        ]
    )


@st.composite
def sandbox_calls(draw: st.DrawFn) -> Operation:
    args = {"internet": draw(st.booleans()), "template": draw(st.sampled_from(["a", "b"]))}
    return parse({"op": "sandbox.create", "args": args})


CALLS = training_calls() | system_calls() | sandbox_calls() | other_calls()
FOUND = st.builds(
    Found,
    harness=st.sampled_from([INITIAL, "changed"]),
    benchmark=st.sampled_from(["Integers", "Shell"]),
) | st.builds(Occupied, st.integers(0, 4))


def allows(permissions: Permissions, call: Operation, found: Found | Occupied | None) -> bool:
    """As the run asks: about the call, then about what its service found."""
    if not permissions.explain(call).allowed:
        return False
    return permissions.explain_found(call, found, INITIAL).allowed


def disagree(a: Permissions, b: Permissions) -> bool:
    """Whether two grants of training have no value in common for some setting."""
    return bool(a.training and b.training) and (a & b).training is None


@given(permissions(), permissions(), CALLS, FOUND)
def test_both_together_allow_what_both_allow(
    a: Permissions, b: Permissions, call: Operation, found: Found | Occupied
) -> None:
    both, each = allows(a & b, call, found), (allows(a, call, found), allows(b, call, found))
    assert not both or all(each)
    if not (disagree(a, b) and call.service == "training"):
        assert both == all(each)


@given(permissions(), permissions(), permissions())
def test_narrowing_is_a_meet(a: Permissions, b: Permissions, c: Permissions) -> None:
    assert a & b == b & a
    assert (a & b) & c == a & (b & c)
    assert a & a == a
    assert a & b & a == a & b
    assert (a & Permissions()).model_dump(exclude={"source"}) == a.model_dump(exclude={"source"})


@given(training_grants(), training_grants(), training_grants())
def test_grants_commute_and_associate(a: TrainingGrant, b: TrainingGrant, c: TrainingGrant) -> None:
    assert a & b == b & a
    ab, bc = a & b, b & c
    assert (ab and ab & c) == (bc and a & bc)


@given(permissions(), permissions())
def test_permissions_survive_every_kind_of_copy(a: Permissions, b: Permissions) -> None:
    both = a & b
    for again in (
        Permissions.model_validate_json(both.model_dump_json()),
        Permissions.model_validate(both.model_dump(mode="json")),
        pickle.loads(pickle.dumps(both)),
        copy.deepcopy(both),
    ):
        assert again == both
        assert hash(again) == hash(both)


@given(permissions(), CALLS)
def test_what_masks_hide_is_refused(a: Permissions, call: Operation) -> None:
    assert a.grants(type(call)) or not a.explain(call).allowed


@given(permissions(), training_calls())
def test_a_filled_call_has_only_values_that_are_allowed(a: Permissions, call: Operation) -> None:
    if a.explain(call).allowed:
        filled = a.fill(call)
        assert a.explain(filled).allowed
        assert a.fill(filled) == filled


@given(permissions(), permissions(), CALLS, FOUND)
def test_a_refusal_names_the_rule_and_whose_it_is(
    a: Permissions, b: Permissions, call: Operation, found: Found | Occupied
) -> None:
    both = a & b
    decision = both.explain(call)
    if decision.allowed:
        decision = both.explain_found(call, found, INITIAL)
    if not decision.allowed:
        assert decision.message
        assert decision.rule.partition(".")[0] in Permissions.model_fields
        assert {*decision.source.split(" and ")} <= {a.source, b.source}
        refusing = {each.source for each in (a, b) if not allows(each, call, found)}
        assert not refusing or {*decision.source.split(" and ")} <= refusing


@pytest.mark.parametrize(
    "change",
    [
        lambda grant: grant.lock.update(num_epochs=2),
        lambda grant: operator.setitem(grant.lock, "num_epochs", 2),
        lambda grant: grant.lock.pop("num_epochs"),
        lambda grant: operator.ior(grant.lock, {"num_epochs": 2}),
        lambda grant: grant.lock["loss_fn_config"].clear(),
        lambda grant: grant.allow.setdefault("lora_config.rank", True),
        lambda grant: grant.allow["loss_fn_config"][0].update(a=2.0),
        lambda grant: setattr(grant, "lock", {}),
        lambda _: operator.setitem(DEFAULTS, "num_epochs", 2),  # pyright: ignore[reportArgumentType, reportCallIssue]
        lambda _: TrainingGrant().lock.update(num_epochs=2),
    ],
)
def test_a_grant_cannot_be_changed(change: Callable[[TrainingGrant], object]) -> None:
    grant = TrainingGrant(
        allow={"loss_fn_config": ({"a": 1.0},)}, lock={"num_epochs": 1, "loss_fn_config": {"a": 1}}
    )
    before = grant.model_dump_json()
    with pytest.raises((TypeError, ValidationError)):
        change(grant)
    assert grant.model_dump_json() == before


def test_a_grant_does_not_follow_the_dict_that_it_was_made_from() -> None:
    lock = {"loss_fn_config": {"a": 1.0}}
    grant = TrainingGrant.model_validate({"lock": lock})
    lock["loss_fn_config"]["a"] = 2.0
    assert grant.lock == {"loss_fn_config": {"a": 1.0}}


def test_a_locked_setting_is_filled_in_and_cannot_be_changed() -> None:
    grant = Permissions(training=TrainingGrant(lock={"lora_config.rank": 8}))
    filled = grant.fill(training({"num_epochs": 2}))
    assert isinstance(filled, TrainingSubmit)
    assert (filled.config.lora_config.rank, filled.config.num_epochs) == (8, 2)
    assert grant.explain(training({"lora_config": {"rank": 8}})).allowed
    refused = grant.explain(training({"lora_config": {"rank": 16}}))
    assert not refused.allowed
    assert refused.rule == "training.lock.lora_config.rank"
    assert refused.source == "experiment"
    assert refused.options == (8,)
    assert "16 is not allowed in this run; allowed: 8" in refused.message


def test_a_setting_outside_the_allowed_ones_keeps_its_default() -> None:
    grant = Permissions(training=TrainingGrant(allow={"num_epochs": True}))
    assert grant.explain(training({"num_epochs": 7})).allowed
    assert grant.explain(training({"batch_size": 16})).allowed
    assert grant.explain(training({"batch_size": 8})).rule == "training.allow.batch_size"


def test_a_setting_without_its_default_has_to_be_given_whoever_locks_it() -> None:
    listed = TrainingGrant(allow={"num_epochs": (2, 3)})
    lock = TrainingGrant(lock={"num_epochs": 2})
    for grant in (listed, listed & lock, lock & listed):
        assert grant is not None
        assert not grant.explain(training({})).allowed
        assert grant.explain(training({"num_epochs": 2})).allowed


def test_matching_is_type_strict() -> None:
    grant = TrainingGrant(allow={"lora_config.train_mlp": (True,), "num_epochs": (1,)})
    assert grant.explain(training({"num_epochs": 1})).allowed
    with pytest.raises(ValidationError):
        TrainingGrant(allow={"num_epochs": (True,)})
    with pytest.raises(ValidationError):
        TrainingGrant(lock={"lora_config.train_mlp": 1})
    rate = TrainingGrant.model_validate({"lock": {"adam_params.learning_rate": 1}})
    assert type(rate.lock["adam_params.learning_rate"]) is float


@pytest.mark.parametrize(
    ("grant", "fields"),
    [
        (TrainingGrant, {"allow": {"lora_config.ranks": True}}),
        (TrainingGrant, {"allow": {"num_epochs": 1}}),
        (TrainingGrant, {"allow": {"num_epochs": False}}),
        (TrainingGrant, {"allow": {"num_epochs": []}}),
        (TrainingGrant, {"allow": {"num_epochs": "1"}}),
        (TrainingGrant, {"allow": {"num_epochs": [2]}, "lock": {"num_epochs": 1}}),
        (TrainingGrant, {"lock": {"rank": 8}}),
        (TrainingGrant, {"lock": {"lora_config.rank": 0}}),
        (TrainingGrant, {"lock": {"adam_params.learning_rate": float("nan")}}),
        (TrainingGrant, {"allow": "all"}),
        (TrainingGrant, {"permit": "*"}),
        (InferenceGrant, {"models": "base"}),
        (InferenceGrant, {"models": [b"base"]}),
        (InferenceGrant, {"models": [""]}),
        (InferenceGrant, {"models": [1]}),
        (EvaluationGrant, {"harness": "Fixed"}),
        (EvaluationGrant, {"benchmarks": None}),
        (SandboxGrant, {"internet": 1}),
        (SandboxGrant, {"internet": "no"}),
        (SandboxGrant, {"max_sandboxes": -1}),
        (SandboxGrant, {"max_sandboxes": True}),
        (SandboxGrant, {"max_sandboxes": 2.0}),
        (Permissions, {"trainings": None}),
        (Permissions, {"training": True}),
        (Permissions, {"source": ""}),
        (Permissions, {"parts": [{"training": None}]}),
    ],
)
def test_a_malformed_grant_is_refused_when_it_is_made(grant: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        grant.model_validate(fields)


def test_locks_that_disagree_leave_nothing_that_can_be_trained() -> None:
    a = Permissions(training=TrainingGrant(lock={"num_epochs": 1}), source="Data")
    b = Permissions(training=TrainingGrant(lock={"num_epochs": 2}))
    assert (a & b).training is None
    decision = (a & b).explain(training({}))
    assert (decision.rule, decision.source) == ("training", "Data and experiment")


def test_nothing_is_measured_or_submitted_without_inference_or_evaluation() -> None:
    for closed in ({"inference": None}, {"evaluation": None}, {"inference": {"models": []}}):
        narrow = Permissions.model_validate(closed)
        for op in ("evaluation.submit", "run.submit"):
            assert not narrow.grants(OPERATIONS[op])
            decision = narrow.explain(parse({"op": op, "args": {"model": "base"}}))
            assert (decision.allowed, decision.rule) == (False, next(iter(closed)))


def test_a_frontier_model_is_one_of_those_that_are_granted() -> None:
    messages = [{"role": "user", "content": "hello"}]
    call = parse({"op": "rollout.chat", "args": {"model": "large", "messages": messages}})
    one = Permissions(rollout=RolloutGrant(models=("large",)))
    other = Permissions(rollout=RolloutGrant(models=("larger",)), source="Data")
    assert one.explain(call).allowed
    decision = other.explain(call)
    assert (decision.allowed, decision.rule, decision.source) == (False, "rollout.models", "Data")
    assert decision.options == ("larger",)
    # Without a model that both grant, there is nothing to ask; the list stays readable.
    both = one & other
    assert both.explain(call).rule == "rollout"
    assert not both.grants(OPERATIONS["rollout.chat"])
    assert both.grants(OPERATIONS["rollout.models"])


def test_the_benchmark_that_a_call_leaves_out_is_checked_too() -> None:
    narrow = Permissions(evaluation=EvaluationGrant(benchmarks=("Shell",)))
    call = parse({"op": "evaluation.submit", "args": {"model": "base"}})
    assert narrow.explain(call).allowed
    decision = narrow.explain_found(call, Found(INITIAL, "Integers"), INITIAL)
    assert (decision.allowed, decision.rule) == (False, "evaluation.benchmarks")


@pytest.mark.parametrize("found", [None, Found("changed", "Integers")])
def test_a_fixed_harness_allows_no_other_and_none_that_was_not_looked_at(
    found: Found | None,
) -> None:
    fixed = Permissions(evaluation=EvaluationGrant(harness="fixed"))
    for op in ("evaluation.submit", "run.submit"):
        call = parse({"op": op, "args": {"model": "base"}})
        assert fixed.explain_found(call, Found(INITIAL, "Integers"), INITIAL).allowed
        assert fixed.explain_found(call, found, INITIAL).rule == "evaluation.harness"
        assert not fixed.explain_found(call, found, INITIAL).allowed
        assert not fixed.explain_found(call, found, None).allowed


def test_a_sandbox_has_no_more_than_the_grant_gives() -> None:
    grant = Permissions(sandbox=SandboxGrant(internet=False, templates=("base",)))
    assert grant.explain(parse({"op": "sandbox.create"})).allowed
    online = grant.explain(parse({"op": "sandbox.create", "args": {"internet": True}}))
    assert (online.allowed, online.rule, online.options) == (False, "sandbox.internet", (False,))
    other = grant.explain(parse({"op": "sandbox.create", "args": {"template": "gpu"}}))
    assert (other.allowed, other.rule, other.options) == (False, "sandbox.templates", ("base",))


@pytest.mark.parametrize(("found", "allowed"), [(Occupied(1), True), (Occupied(2), False)])
def test_there_are_no_more_sandboxes_than_the_grant_gives(found: Occupied, allowed: bool) -> None:
    call = parse({"op": "sandbox.create"})
    grant = Permissions(sandbox=SandboxGrant(max_sandboxes=2))
    assert grant.explain_found(call, found, INITIAL).allowed is allowed
    assert Permissions().explain_found(call, found, INITIAL).allowed
    uncounted = grant.explain_found(call, None, INITIAL)
    assert (uncounted.allowed, uncounted.rule) == (False, "sandbox.max_sandboxes")


@pytest.mark.parametrize("grant", [{"max_sandboxes": 0}, {"templates": []}])
def test_a_grant_of_no_sandbox_at_all_hides_creating_alone(grant: dict[str, Any]) -> None:
    narrow = Permissions(sandbox=SandboxGrant(**grant))
    assert not narrow.grants(OPERATIONS["sandbox.create"])
    assert narrow.explain(parse({"op": "sandbox.create"})).rule == "sandbox"
    assert narrow.grants(OPERATIONS["sandbox.kill"])
