"""The training settings are Tinker's own: names, defaults and losses, as the SDK has them."""

from typing import get_args

import pytest
from tinker.types import AdamParams as TinkerAdam
from tinker.types import LoraConfig as TinkerLora
from tinker.types import LossFnType

from rsigym.local.tinker.losses import LOSSES as SERVED
from rsigym.operations.training import AdamParams, LoraConfig, LossName
from rsigym.services.training_losses import LOSSES


def test_the_optimizer_s_are_tinker_s() -> None:
    ours = {name: field.default for name, field in AdamParams.model_fields.items()}
    theirs = {name: field.default for name, field in TinkerAdam.model_fields.items()}
    assert ours == theirs


def test_the_adapter_s_are_tinker_s_but_for_what_makes_a_run_repeatable() -> None:
    ours = {name: field.default for name, field in LoraConfig.model_fields.items()}
    theirs = TinkerLora.model_fields
    assert ours.keys() == theirs.keys()
    assert ours.pop("seed") == 0
    assert theirs["rank"].is_required()
    assert ours.pop("rank") == 16
    assert all(theirs[name].default == value for name, value in ours.items())


def test_the_losses_are_tinker_s() -> None:
    names = get_args(LossName.__value__)
    assert set(names) == set(get_args(LossFnType)) - {"stable_reinforce", "custom"}
    assert names == tuple(LOSSES) == tuple(SERVED)


@pytest.mark.parametrize("name", LOSSES)
def test_the_local_server_reads_what_is_sent_and_has_the_same_defaults(name: LossName) -> None:
    ours, served = LOSSES[name], SERVED[name]
    assert set(ours.inputs) == set(served.inputs)
    assert ours.settings == served.settings
    assert ours.scores_context == (served.gate is None)
