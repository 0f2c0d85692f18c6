"""The tracks: what each preset allows, and that the page says what the pipeline does."""

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rsigym.operations import OPERATIONS, Operation
from rsigym.operations.evaluation import EvaluationSubmit
from rsigym.operations.json_value import Json
from rsigym.operations.run import RunSubmit
from rsigym.operations.sandbox import SandboxCreate
from rsigym.operations.training import TrainingSubmit
from rsigym.platform.decision import Found, Occupied
from rsigym.platform.memory_ledger import MemoryLedger
from rsigym.platform.outcome import Outcome, Status
from rsigym.platform.parse import parse
from rsigym.platform.permissions import CHECKPOINTS, Permissions
from rsigym.platform.run import Run
from rsigym.platform.service import Prepared
from rsigym.platform.settings import DEFAULTS
from rsigym.platform.track_table import (
    BENCHMARK,
    COLUMNS,
    HARNESS,
    MODEL,
    Cell,
    cell,
    page,
    rows,
)
from rsigym.platform.tracks import (
    DATA_SETTINGS,
    LOCAL_DATA_SETTINGS,
    OFFLINE,
    Track,
    open_permissions,
    track_of,
    track_permissions,
)

ROOT = Path(__file__).parents[2]
CHECKPOINT = "tinker://mine/sampler_weights/1"
ARGS: dict[str, dict[str, Any]] = {
    "workspace.read": {"path": "notes.md"},
    "workspace.write": {"path": "notes.md", "content": ""},
    "training.submit": {"data": "d.jsonl"},
    "training.status": {"handle": "training-1"},
    "training.cancel": {"handle": "training-1"},
    "inference.chat": {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]},
    "rollout.chat": {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]},
    "evaluation.submit": {"model": MODEL, "harness": HARNESS},
    "evaluation.status": {"handle": "evaluation-1"},
    "evaluation.cancel": {"handle": "evaluation-1"},
    "evaluation.read": {"handle": "evaluation-1", "trial": "t-1"},
    "sandbox.run": {"sandbox": "sandbox-1", "command": "ls"},
    "sandbox.read": {"sandbox": "sandbox-1", "path": "a"},
    "sandbox.write": {"sandbox": "sandbox-1", "path": "a", "content": ""},
    "sandbox.kill": {"sandbox": "sandbox-1"},
    "budget.quote": {"call": {"op": "budget.balance"}},
    "run.submit": {"model": MODEL, "harness": HARNESS},
}
"""Arguments with which an operation is allowed wherever it is granted."""

CANDIDATES: dict[str, list[Json]] = {
    "data": ["d.jsonl", "e.jsonl"],
    "model": [MODEL, CHECKPOINT, "another model"],
    "harness": [HARNESS, "another harness"],
    "benchmark": [BENCHMARK, "another benchmark"],
    "internet": [False, True],
    "template": ["base", "another template"],
    "init_from": [None, CHECKPOINT],
    "base_model": [MODEL, "another model"],
    "lora_config.rank": [16, 8],
    "lora_config.seed": [0, 1],
    "lora_config.train_mlp": [True, False],
    "lora_config.train_attn": [True, False],
    "lora_config.train_unembed": [True, False],
    "adam_params.learning_rate": [1e-3, 3e-4],
    "adam_params.beta1": [0.9, 0.8],
    "adam_params.beta2": [0.95, 0.999],
    "adam_params.eps": [1e-8, 1e-6],
    "adam_params.weight_decay": [0.0, 0.1],
    "adam_params.grad_clip_norm": [0.0, 1.0],
    "loss_fn": ["cross_entropy"],
    "loss_fn_config": [{}, {"beta": 0.1}],
    "num_epochs": [1, 2],
    "batch_size": [16, 8],
    "max_length": [2048, 1024],
    "max_steps": [None, 10],
    "train_on_what": ["all_assistant_messages", "last_assistant_message"],
    "lr_schedule": ["linear", "constant"],
    "renderer": ["chat_template"],
    "checkpoint_every": [None, 5],
}
"""Values of every argument; those that a cell names are among them."""


class Anything:
    """Does every call; a harness's content id is its name."""

    def prepare(self, operation: Operation) -> Prepared:
        found = None
        if isinstance(operation, EvaluationSubmit | RunSubmit):
            found = Found(operation.harness, operation.benchmark or BENCHMARK)
        elif isinstance(operation, SandboxCreate):
            found = Occupied(0)
        self.last = operation
        return Prepared(lambda _: {}, found=found)

    def close(self) -> None:
        pass


@pytest.fixture
def service() -> Anything:
    return Anything()


@pytest.fixture(params=COLUMNS)
def column(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def run(tmp_path: Path, column: str, service: Anything) -> Iterator[Run]:
    ledger = MemoryLedger()
    ledger.open("run", 1)
    services = {op.partition(".")[0]: service for op in OPERATIONS if "budget" not in op}
    run = Run("run", tmp_path, COLUMNS[column], ledger, services, HARNESS)
    yield run
    run.close()
    ledger.close()


def call(op: str, argument: str | None = None, value: Json = None) -> dict[str, Any]:
    args = dict(ARGS.get(op, {}))
    if argument is not None:
        in_config = argument in DEFAULTS and argument != "init_from"
        *parents, leaf = ["config", *argument.split(".")] if in_config else [argument]
        node = args
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return {"op": op, "args": args}


def rule(outcome: Outcome) -> str:
    assert outcome.status is Status.REFUSED
    error = outcome.evidence["error"]
    assert isinstance(error, dict)
    return str(error["rule"])


def allowed_by(cell: Cell, value: Json) -> bool:
    """What the page says about a value."""
    own = value == CHECKPOINT and CHECKPOINTS in cell.values
    return cell.kind == "open" or own or value in cell.values


def test_the_pipeline_does_what_each_cell_says(run: Run, column: str, service: Anything) -> None:
    for op, argument in rows():
        said = cell(COLUMNS[column], op, argument)
        if said.kind == "revoked":
            assert rule(run.call(call(op))) == op.partition(".")[0]
            continue
        assert run.call(call(op)).status is Status.OK
        if argument is None:
            continue
        if said.kind == "locked":
            assert said.values == (filled(service.last, argument),)
        for value in CANDIDATES[argument]:
            outcome = run.call(call(op, argument, value))
            if allowed_by(said, value):
                assert outcome.status is Status.OK, (op, argument, value, outcome)
            else:
                assert rule(outcome) == rule_of(said, argument)


def rule_of(cell: Cell, argument: str) -> str:
    """Which rule refuses what a cell leaves out."""
    if cell.kind == "locked":
        return f"training.lock.{argument}"
    return {
        "model": "inference.models",
        "benchmark": "evaluation.benchmarks",
        "harness": "evaluation.harness",
        "internet": "sandbox.internet",
        "template": "sandbox.templates",
    }[argument]


def filled(call: Operation, argument: str) -> Any:
    """The value of a setting in a training call as the service got it."""
    assert isinstance(call, TrainingSubmit)
    found: Any = call if argument == "init_from" else call.config
    for name in argument.split("."):
        found = getattr(found, name)
    return found


def test_every_value_that_the_page_names_was_tried() -> None:
    for permissions in COLUMNS.values():
        for op, argument in rows():
            if argument is not None:
                values = cell(permissions, op, argument).values
                assert all(v in CANDIDATES[argument] or v == CHECKPOINTS for v in values)


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "tracks.md").read_text(encoding="utf-8")
    assert written == page(), "docs/tracks.md is out of date: run `make docs`"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("lora_config.rank", 16),
        ("lora_config.seed", 0),
        ("adam_params.learning_rate", 3e-4),
        ("adam_params.beta1", 0.9),
        ("adam_params.beta2", 0.95),
        ("adam_params.eps", 1e-8),
        ("batch_size", 16),
        ("num_epochs", 1),
        ("lr_schedule", "linear"),
        ("train_on_what", "all_assistant_messages"),
        ("loss_fn", "cross_entropy"),
    ],
)
def test_data_locks_the_values_of_the_paper(path: str, value: Json) -> None:
    assert DATA_SETTINGS[path] == value
    assert DATA_SETTINGS.keys() == LOCAL_DATA_SETTINGS.keys() == DEFAULTS.keys()


def test_local_benchmarks_differ_in_the_learning_rate_alone() -> None:
    differing = {path for path in DEFAULTS if DATA_SETTINGS[path] != LOCAL_DATA_SETTINGS[path]}
    assert differing == {"adam_params.learning_rate"}
    assert LOCAL_DATA_SETTINGS["adam_params.learning_rate"] == 1e-3


def test_the_tracks_of_permissions_are_named() -> None:
    opened = open_permissions(["Integers"])
    assert track_of(opened) is None
    assert track_of(opened & OFFLINE) is None
    both: Permissions = opened
    names: tuple[Track, ...] = typing.get_args(Track.__value__)
    for name in names:
        assert track_of(opened & track_permissions(name, "m")) == name
        both &= track_permissions(name, "m")
    assert track_of(both) == "Data and Harness and Joint"


def test_a_refusal_names_the_track_whose_rule_it_is() -> None:
    permissions = open_permissions(["Integers"]) & track_permissions("Data", "m") & OFFLINE
    changed = call("training.submit", "num_epochs", 2)
    decision = permissions.explain(parse(changed))
    assert (decision.rule, decision.source) == ("training.lock.num_epochs", "Data")
    other = permissions.explain(parse(call("evaluation.submit", "benchmark", "Shell")))
    assert (other.allowed, other.source) == (False, "Data")
    there = call("evaluation.submit") | {"args": {"model": "m", "benchmark": "Shell"}}
    decision = permissions.explain(parse(there))
    assert (decision.rule, decision.source) == ("evaluation.benchmarks", "experiment")
