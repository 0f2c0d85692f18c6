"""Permissions: type-strict, explained, and a lattice that only narrows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rsigym.operations import OPERATIONS
from rsigym.operations.training import TrainingSubmit
from rsigym.platform.parse import parse
from rsigym.platform.permissions import (
    CHECKPOINTS,
    EvaluationGrant,
    InferenceGrant,
    Permissions,
    TrainingGrant,
)
from rsigym.platform.tracks import track_permissions

RANKS = st.sampled_from([4, 8, 16])
MODELS = ("base", "other")


def training(config: dict[str, Any]) -> TrainingSubmit:
    return TrainingSubmit.model_validate({"data": "d.jsonl", "config": config})


def grants() -> st.SearchStrategy[TrainingGrant]:
    allow = st.one_of(
        st.just("*"),
        st.dictionaries(
            st.just("lora_config.rank"),
            st.one_of(st.just(True), st.lists(RANKS, min_size=1, unique=True)),
        ),
    )
    lock = st.dictionaries(
        st.sampled_from(["num_epochs", "base_model"]), st.integers(1, 2), max_size=1
    ).map(lambda found: {k: (v if k == "num_epochs" else MODELS[v - 1]) for k, v in found.items()})
    return st.builds(
        lambda a, k: TrainingGrant.model_validate({"allow": a, "lock": k}), allow, lock
    )


def permissions() -> st.SearchStrategy[Permissions]:
    names = st.one_of(
        st.just("*"), st.lists(st.sampled_from([*MODELS, CHECKPOINTS]), unique=True).map(tuple)
    )
    return st.builds(
        Permissions,
        training=st.none() | grants(),
        inference=st.none() | st.builds(lambda m: InferenceGrant(models=m), names),
        evaluation=st.none()
        | st.builds(lambda h: EvaluationGrant(harness=h), st.sampled_from(["open", "fixed"])),
    )


CALLS = [
    training(config)
    for config in (
        {},
        {"lora_config": {"rank": 4}},
        {"lora_config": {"rank": 8}, "num_epochs": 2},
        {"base_model": "base"},
        {"base_model": "other", "lora_config": {"rank": 16}},
    )
] + [
    parse({"op": "evaluation.submit", "args": {"model": model}})
    for model in (*MODELS, "tinker://a/sampler_weights/b")
]


def allows(permissions: Permissions) -> list[bool]:
    return [permissions.explain(call).allowed for call in CALLS]


@given(permissions(), permissions())
def test_both_together_allow_no_more_than_either(a: Permissions, b: Permissions) -> None:
    for both, x, y in zip(allows(a & b), allows(a), allows(b), strict=True):
        assert not both or (x and y)


@given(permissions(), permissions(), permissions())
def test_narrowing_commutes_associates_and_is_idempotent(
    a: Permissions, b: Permissions, c: Permissions
) -> None:
    assert allows(a & b) == allows(b & a)
    assert allows((a & b) & c) == allows(a & (b & c))
    assert allows(a & a) == allows(a)


@given(permissions())
def test_permissions_survive_json(a: Permissions) -> None:
    assert Permissions.model_validate_json(a.model_dump_json()) == a


def test_a_locked_setting_is_filled_in_and_cannot_be_changed() -> None:
    grant = Permissions(training=TrainingGrant(lock={"lora_config.rank": 8}))
    filled = grant.fill(training({"num_epochs": 2}))
    assert isinstance(filled, TrainingSubmit)
    assert (filled.config.lora_config.rank, filled.config.num_epochs) == (8, 2)
    assert grant.explain(training({"lora_config": {"rank": 8}})).allowed
    refused = grant.explain(training({"lora_config": {"rank": 16}}))
    assert not refused.allowed
    assert refused.rule == "training.lock.lora_config.rank"
    assert "16" in refused.message
    assert "8" in refused.message


def test_a_setting_outside_the_allowed_ones_keeps_its_default() -> None:
    grant = Permissions(training=TrainingGrant(allow={"num_epochs": True}))
    assert grant.explain(training({"num_epochs": 7})).allowed
    assert grant.explain(training({"batch_size": 16})).allowed
    assert grant.explain(training({"batch_size": 8})).rule == "training.allow.batch_size"


def test_matching_is_type_strict() -> None:
    grant = TrainingGrant(allow={"lora_config.train_mlp": (True,), "num_epochs": (1,)})
    assert grant.explain(training({"num_epochs": 1})).allowed
    with pytest.raises(ValidationError):
        TrainingGrant(allow={"num_epochs": (True,)})
    with pytest.raises(ValidationError):
        TrainingGrant(lock={"lora_config.train_mlp": 1})


@pytest.mark.parametrize(
    "grant",
    [
        {"allow": {"lora_config.ranks": True}},
        {"lock": {"rank": 8}},
        {"lock": {"lora_config.rank": 0}},
        {"lock": {"adam_params.learning_rate": float("nan")}},
        {"allow": "all"},
        {"permit": "*"},
    ],
)
def test_a_malformed_grant_is_refused_when_it_is_made(grant: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TrainingGrant.model_validate(grant)


def test_locks_that_disagree_leave_nothing_that_can_be_trained() -> None:
    a = Permissions(training=TrainingGrant(lock={"num_epochs": 1}))
    b = Permissions(training=TrainingGrant(lock={"num_epochs": 2}))
    assert (a & b).training is None


def test_joint_locks_the_base_model_and_opens_the_rest() -> None:
    joint = track_permissions("Joint", "base", ("Integers",))
    assert joint.explain(training({"lora_config": {"rank": 4}, "num_epochs": 3})).allowed
    assert not joint.explain(training({"base_model": "other"})).allowed
    evaluate = {"op": "evaluation.submit", "args": {"model": "other"}}
    assert joint.explain(parse(evaluate)).rule == "inference.models"
    assert all(joint.grants(operation) for operation in OPERATIONS.values())
