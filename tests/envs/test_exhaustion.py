"""A budget that is spent masks what costs, and only that; the episode goes on to its end."""

from typing import Any

import gymnasium as gym

from rsigym.operations import OPERATIONS
from rsigym.platform.ledger import Item
from rsigym.platform.outcome import Status
from tests.envs.conftest import MODEL, Open, inner

RECORDS = [
    {
        "messages": [
            {"role": "user", "content": f"{i}"},
            {"role": "assistant", "content": f"{i + 1}"},
        ]
    }
    for i in range(16)
]
PRICE = {"input": 2.0, "output": 8.0}
CHAT = [{"role": "user", "content": "hello"}]


def ask(env: gym.Env[Any, Any], op: str, **args: Any) -> tuple[Status, dict[str, Any]]:
    observation, *_ = env.step({"op": op, "args": args})
    return Status(observation["status"]), observation["evidence"]


def spend_the_rest(env: gym.Env[Any, Any], name: str) -> None:
    """To the last nano-dollar, which real work would rarely hit; `name` is the call's."""
    episode = inner(env).episode
    assert episode is not None
    ledger, account = episode.run.ledger, episode.run.id
    free = ledger.balance(account).free
    assert free
    ledger.hold(account, f"{account}/{name}", free)
    ledger.settle(f"{account}/{name}", [Item("inference", "sample", free, "token", 1)])


def test_a_spent_budget_masks_what_costs_and_everything_else_goes_on(open_env: Open) -> None:
    # Nobody is asked: the call is turned away before.
    own = {"model": "openai/own", "api_base": "http://127.0.0.1:9/v1", "price": PRICE}
    env = open_env(rollout_models={"own": own})
    env.reset(seed=0)
    handles = [
        ask(env, "training.submit", data=RECORDS)[1]["handle"],
        ask(env, "evaluation.submit", model=MODEL, n_tasks=1)[1]["handle"],
    ]
    while ask(env, "run.wait", handles=handles)[1]["running"]:
        pass
    training, evaluation = handles
    sandbox = ask(env, "sandbox.create")[1]["sandbox"]
    spend_the_rest(env, "rest")

    *_, info = env.step({"op": "budget.balance"})
    masked = OPERATIONS.keys() - {*info["legal_ops"]}
    assert masked == {
        "training.submit",
        "inference.chat",
        "rollout.chat",
        "evaluation.submit",
        "sandbox.create",
    }
    assert masked == {name for name, operation in OPERATIONS.items() if operation.paid}
    paid: dict[str, dict[str, Any]] = {
        "training.submit": {"data": RECORDS},
        "inference.chat": {"model": MODEL, "messages": CHAT},
        "rollout.chat": {"model": "own", "messages": CHAT},
        "evaluation.submit": {"model": MODEL},
        "sandbox.create": {},
    }
    trial = ask(env, "evaluation.status", handle=evaluation)[1]["trials"][0]["trial"]
    free: dict[str, dict[str, Any]] = {
        "workspace.list": {},
        "workspace.read": {"path": "harness/run.sh"},
        "workspace.write": {"path": "notes.md", "content": "The money is gone."},
        "training.status": {"handle": training},
        "training.cancel": {"handle": training},
        "inference.models": {},
        "rollout.models": {},
        "evaluation.status": {"handle": evaluation},
        "evaluation.cancel": {"handle": evaluation},
        "evaluation.read": {"handle": evaluation, "trial": trial},
        "sandbox.write": {"sandbox": sandbox, "path": "notes.md", "content": "Paid for."},
        "sandbox.read": {"sandbox": sandbox, "path": "notes.md"},
        "sandbox.run": {"sandbox": sandbox, "command": "ls"},
        "sandbox.kill": {"sandbox": sandbox},
        "budget.balance": {},
        "run.wait": {"handles": handles},
    }
    assert OPERATIONS.keys() == {*paid, *free, "budget.quote", "run.submit"}
    for op, args in paid.items():
        assert ask(env, op, **args)[0] is Status.UNAFFORDABLE
        status, quote = ask(env, "budget.quote", call={"op": op, "args": args})
        assert (status, quote["affordable"]) == (Status.OK, False)
    for op, args in free.items():
        status, evidence = ask(env, op, **args)
        assert status is Status.OK, (op, evidence)

    spend_the_rest(env, "change")  # What the killed sandbox gave back.
    submit = {"op": "run.submit", "args": {"model": MODEL}}
    observation, _, terminated, _, info = env.step(submit)
    assert (observation["status"], terminated) == (Status.OK, True)
    assert info["result"]["overdraft_usd"] == 0
    assert observation["budget"].tolist() == [5.0, 5.0, 0.0]
