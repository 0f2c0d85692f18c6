"""A quote is never below what the call then costs: drawn calls, quoted, made and waited for."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rsigym
from rsigym.platform.outcome import Status
from tests.envs.conftest import MODEL, inner

assert rsigym

GREEDY = """\
#!/usr/bin/env bash
# Asks for as much as it may, several times at once, until the platform refuses.
cat > /dev/null
python3 - <<'PY'
import json, os, threading, urllib.error, urllib.request

def ask(tokens):
    body = {"model": os.environ["OPENAI_MODEL"], "max_tokens": tokens, "n": 8,
            "messages": [{"role": "user", "content": "again " * 50}]}
    request = urllib.request.Request(
        os.environ["OPENAI_API_BASE"] + "/chat/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json"})
    try:
        for _ in range(1000):
            urllib.request.urlopen(request, timeout=60).read()
    except urllib.error.HTTPError:
        pass

askers = [threading.Thread(target=ask, args=[tokens]) for tokens in (200, 40, 1)]
for asker in askers: asker.start()
for asker in askers: asker.join()
PY
"""
HURRIED = """\
#!/usr/bin/env bash
# Gives its only question up.
curl -s -m 0.1 "$OPENAI_API_BASE/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "'"$OPENAI_MODEL"'", "max_tokens": 900, "n": 8, "messages": [
  {"role": "user", "content": "Count."}]}'
exit 0
"""
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=60)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": TEXT}),
    min_size=1,
    max_size=4,
)
CHATS = st.fixed_dictionaries(
    {"messages": MESSAGES},
    optional={
        "n": st.integers(1, 4),
        "max_tokens": st.integers(1, 24),
        "temperature": st.sampled_from([0.0, 1.0, 2.0]),
        "stop": st.lists(st.sampled_from(["a", "e", "Ġ", "\n"]), min_size=1, max_size=2),
        "logprobs": st.booleans(),
    },
)
RECORDS = st.lists(TEXT.filter(str.strip), min_size=4, max_size=12).map(
    lambda texts: [
        {
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": text[::-1]},
            ]
        }
        for text in texts
    ]
)
CONFIGS = st.fixed_dictionaries(
    {"batch_size": st.integers(1, 4)},
    optional={
        "num_epochs": st.integers(1, 2),
        "max_steps": st.integers(1, 5),
        "max_length": st.integers(64, 256),
        "checkpoint_every": st.integers(1, 3),
    },
)
EVALUATIONS = st.fixed_dictionaries(
    {
        "harness": st.sampled_from(["harness", "greedy", "hurried"]),
        "n_tasks": st.integers(1, 3),
        "n_attempts": st.integers(1, 2),
        "timeout_multiplier": st.sampled_from([0.02, 1.0]),
    }
)


@pytest.fixture(scope="module")
def env(system: dict[str, str]) -> Iterator[gym.Env[Any, Any]]:
    env = gym.make(
        "RSIGym/Integers-v0", initial_system=system, budget_usd=100_000.0, sandbox="auto"
    )
    env.reset(seed=0)
    for name, content in {"greedy": GREEDY, "hurried": HURRIED}.items():
        ask(env, "workspace.write", path=f"{name}/run.sh", content=content)
    yield env
    env.close()


def ask(env: gym.Env[Any, Any], op: str, **args: Any) -> dict[str, Any]:
    observation, *_ = env.step({"op": op, "args": args})
    assert observation["status"] == Status.OK, observation["evidence"]
    return observation["evidence"]


def spent(env: gym.Env[Any, Any]) -> int:
    """Nano-USD, with everything settled."""
    episode = inner(env).episode
    assert episode is not None
    ledger, account = episode.run.ledger, episode.run.id
    assert ledger.open_holds(account) == []
    assert ledger.overdraft(account) == 0
    return ledger.balance(account).spent


def costs_at_most_its_quote(env: gym.Env[Any, Any], op: str, args: dict[str, Any]) -> float:
    """Quote a call, make it, wait for it; what it cost as a share of the worst case."""
    before = spent(env)
    quote = ask(env, "budget.quote", call={"op": op, "args": args})
    assert quote["affordable"]
    assert quote["fits_whole"]
    assert 0 <= quote["expected_usd"] <= quote["worst_usd"]
    assert quote["held_at_start_usd"] <= quote["worst_usd"]
    made_of = sum(item["quantity"] * item["unit_usd"] for item in quote["items"])
    assert made_of == pytest.approx(quote["worst_usd"])
    assert spent(env) == before, "a quote is free"

    handle = ask(env, op, **args).get("handle")
    while handle and ask(env, "run.wait", handles=[handle])["running"]:
        pass
    cost = (spent(env) - before) / 1e9
    assert cost <= quote["worst_usd"] + 1e-12
    return cost / quote["worst_usd"] if quote["worst_usd"] else 0.0


@given(CHATS)
@settings(max_examples=25)
def test_of_a_chat(env: gym.Env[Any, Any], chat: dict[str, Any]) -> None:
    assert costs_at_most_its_quote(env, "inference.chat", {"model": MODEL, **chat}) > 0


@given(RECORDS, CONFIGS)
@settings(max_examples=12)
def test_of_a_training_run_that_ends_by_itself_to_the_last_token(
    env: gym.Env[Any, Any], records: list[Any], config: dict[str, Any]
) -> None:
    args: dict[str, Any] = {"data": records, "config": config}
    assert costs_at_most_its_quote(env, "training.submit", args) == pytest.approx(1)


@given(EVALUATIONS)
@settings(max_examples=6)
def test_of_an_evaluation_whatever_its_harness_does(
    env: gym.Env[Any, Any], evaluation: dict[str, Any]
) -> None:
    assert costs_at_most_its_quote(env, "evaluation.submit", {"model": MODEL, **evaluation}) > 0


@pytest.mark.parametrize(
    "call",
    [
        {"op": "workspace.list", "args": {}},
        {"op": "inference.models", "args": {}},
        {"op": "budget.balance", "args": {}},
        {"op": "run.wait", "args": {"timeout_s": 0}},
    ],
    ids=lambda call: call["op"],
)
def test_of_what_is_free_is_nothing(env: gym.Env[Any, Any], call: dict[str, Any]) -> None:
    assert costs_at_most_its_quote(env, call["op"], call["args"]) == 0
    quote = ask(env, "budget.quote", call=call)
    assert (quote["worst_usd"], quote["items"]) == (0, [])
