"""The spaces: what they contain, that samples are contained, that they travel."""

import copy
import json
import pickle
from typing import Any

import cloudpickle
import jsonschema
import numpy as np
import pytest
from gymnasium.spaces import Space
from hypothesis import given
from hypothesis import strategies as st

from rsigym.operations import OPERATIONS
from rsigym.operations.inference import InferenceChat
from rsigym.operations.workspace import WorkspaceRead
from rsigym.platform.permissions import InferenceGrant, Permissions, RolloutGrant, TrainingGrant
from rsigym.spaces import CallSpace, JsonValue, Unicode

SPACES: list[Space[Any]] = [CallSpace(), JsonValue(1000), Unicode(50)]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_samples_are_contained_seeded_and_jsonable(space: Space[Any]) -> None:
    space.seed(3)
    first = [space.sample() for _ in range(50)]
    assert all(sample in space for sample in first)
    space.seed(3)
    assert first == [space.sample() for _ in range(50)]
    travelled = space.from_jsonable(json.loads(json.dumps(space.to_jsonable(first))))
    assert all(sample in space for sample in travelled)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_spaces_are_equal_after_every_kind_of_copy(space: Space[Any]) -> None:
    for again in (
        copy.deepcopy(space),
        pickle.loads(pickle.dumps(space)),
        cloudpickle.loads(cloudpickle.dumps(space)),
    ):
        assert again == space


def test_spaces_differ_by_their_bounds() -> None:
    assert Unicode(1) != Unicode(2)
    assert JsonValue(1) != JsonValue(2)
    assert CallSpace() != CallSpace(permissions=Permissions(training=None))
    assert Unicode(1) != JsonValue(1)


@given(JSON)
def test_every_small_json_value_is_contained(value: Any) -> None:
    assert value in JsonValue(10_000)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        {"x": float("inf")},
        (1,),
        {1: 2},
        b"x",
        np.float64(1),
        {"x": "\ud800"},
        "x" * 11,
    ],
)
def test_what_is_no_json_or_too_large_is_not_contained(value: Any) -> None:
    assert value not in JsonValue(10)


@pytest.mark.parametrize("text", ["", "hello world, ¡olé!", "中文", "a" * 50])
def test_text_of_any_language_is_contained(text: str) -> None:
    assert text in Unicode(50)


@pytest.mark.parametrize("text", ["\ud800", "a" * 51, 5, b"x", None])
def test_lone_surrogates_and_long_strings_are_not_text(text: Any) -> None:
    assert text not in Unicode(50)


def test_a_mask_chooses_among_operations() -> None:
    space = CallSpace(seed=0)
    mask = np.zeros(len(OPERATIONS), np.int8)
    mask[list(OPERATIONS).index("budget.balance")] = 1
    assert {str(space.sample(mask)["op"]) for _ in range(20)} == {"budget.balance"}
    with pytest.raises(ValueError, match="no operation"):
        space.sample(np.zeros(len(OPERATIONS), np.int8))
    with pytest.raises(ValueError, match="shape"):
        space.sample(np.ones(3, np.int8))


@pytest.mark.parametrize(
    "call",
    [
        {"op": "workspace.read", "args": {"path": "a"}},
        json.loads('{"op": "workspace.list", "args": {}}'),
        {"op": "workspace.list"},
        WorkspaceRead(path="a"),
    ],
)
def test_valid_calls_are_contained(call: Any) -> None:
    assert call in CallSpace()


@pytest.mark.parametrize(
    "call",
    [
        None,
        "workspace.list",
        [],
        {},
        {"op": "workspace.erase", "args": {}},
        {"op": "workspace.read", "args": {}},
        {"op": "workspace.read", "args": {"path": 5}},
        {"op": "workspace.read", "args": {"path": "a", "offset": "0"}},
        {"op": "workspace.read", "args": {"path": "a", "offset": True}},
        {"op": "workspace.list", "args": {}, "extra": 1},
        {"op": ["workspace.list"], "args": {}},
        {"op": "workspace.list", "args": []},
        WorkspaceRead.model_construct(path=5),
    ],
)
def test_calls_that_are_not_valid_are_not_contained(call: Any) -> None:
    assert call not in CallSpace()


def test_restricting_narrows_calls_mask_and_tools() -> None:
    open_space = CallSpace()
    narrow = open_space.restrict(Permissions(training=TrainingGrant(lock={"num_epochs": 1})))
    call = {"op": "training.submit", "args": {"data": "d", "config": {"num_epochs": 2}}}
    assert call in open_space
    assert call not in narrow
    revoked = narrow.restrict(Permissions(training=None))
    assert len(revoked.mask) == len(open_space.mask)
    assert not any(tool["function"]["name"].startswith("training") for tool in revoked.tools())
    assert {str(revoked.sample()["op"]) for _ in range(100)}.isdisjoint(
        {"training.submit", "training.status", "training.cancel"}
    )


def test_samples_ask_models_that_are_granted() -> None:
    granted = Permissions(
        inference=InferenceGrant(models=("base",)), rollout=RolloutGrant(models=("large",))
    )
    space = CallSpace(["inference.chat", "rollout.chat"], granted, seed=0)
    samples: list[dict[str, Any]] = [space.sample() for _ in range(40)]
    assert {(call["op"], call["args"]["model"]) for call in samples} == {
        ("inference.chat", "base"),
        ("rollout.chat", "large"),
    }
    assert all(call in space for call in samples)


def test_tools_are_what_openai_accepts() -> None:
    for tool in CallSpace().tools():
        function = tool["function"]
        assert tool["type"] == "function"
        assert function["name"].replace("_", "").isalnum()
        assert function["description"]
        assert function["parameters"]["type"] == "object"


def test_the_json_schema_names_every_operation() -> None:
    schema = CallSpace().json_schema()
    assert [each["properties"]["op"]["const"] for each in schema["oneOf"]] == list(OPERATIONS)


def test_the_json_schema_takes_what_the_space_contains() -> None:
    space = CallSpace(seed=0)
    schema = jsonschema.Draft202012Validator(space.json_schema())
    for mask in np.eye(len(OPERATIONS), dtype=np.int8):
        schema.validate(space.sample(mask))
    config = {"lora_config": {"rank": 8}}
    trained: dict[str, Any] = {"op": "training.submit", "args": {"data": "d", "config": config}}
    schema.validate(trained)
    config["lora_config"]["rank"] = 0
    for wrong in (trained, {"op": "training.submit"}, {"op": "training.start", "args": {}}):
        assert wrong not in space
        assert not schema.is_valid(wrong)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [nested(900), nested(100_000), endless()], ids=["a", "b", "c"])
def test_what_is_nested_too_deeply_is_in_no_space(value: Any) -> None:
    part = {"role": "user", "content": [{"type": value, "text": "x"}]}
    assert value not in JsonValue(10**6)
    assert {"op": "inference.chat", "args": {"model": "m", "messages": [part]}} not in CallSpace()
    assert {"op": "training.submit", "args": {"data": [{"a": value}]}} not in CallSpace()


def test_an_operation_that_no_json_holds_is_in_no_space() -> None:
    assert InferenceChat.model_construct(model="m", messages=endless()) not in CallSpace()
