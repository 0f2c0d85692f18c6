"""A scripted researcher: what a person would do first, through `env.step` alone.

It measures the initial system, reads a few failed trials, trains on questions of its own that are
answered with a calculation, has a harness do the calculating, measures every pair of model and
harness on development tasks, and submits the best. What its track refuses it leaves as it is. Its
choices depend on the seed and on what the environment answers, on nothing else.
"""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["research", "training_records"]

OK, REFUSED = 0, 2
"""Of the observation's `status`."""

EXAMPLES = 280
DEVELOPMENT_TASKS = 20
FAILURES_TO_READ = 3
CONFIG = {
    "adam_params": {"learning_rate": 1e-3},
    "num_epochs": 1,
    "batch_size": 8,
    "max_length": 256,
}

_HERE = Path(__file__).parent


def research(env: Any, seed: int) -> None:
    """Run one episode of `env` from reset to submission."""
    observation, _ = env.reset(seed=seed)
    lab = Lab(env)
    base = observation["evidence"]["initial_system"]["model"]
    print(f"The initial system is {_short(base)} with harness/; {lab.free_usd():.2f} USD to spend.")

    first = lab.evaluate(base, "harness")
    scores = {(base, "harness"): first["score"]}
    prompt = lab.read_failures(first)

    models = [base]
    with suppress(RefusedError):
        models.append(lab.train(training_records(EXAMPLES, seed, *prompt), base, seed))
    lab.write_calculator()
    for model in models:
        for harness in ("harness", "calculator"):
            if (model, harness) not in scores:
                with suppress(RefusedError):
                    scores[model, harness] = lab.evaluate(model, harness)["score"]

    model, harness = max(scores, key=lambda pair: scores[pair])
    print(f"Submitting {_short(model)} with {harness}/; {lab.free_usd():.2f} USD are left.")
    lab.call("run.submit", model=model, harness=harness)


def training_records(
    count: int, seed: int, system: str, lead: str
) -> list[dict[str, list[dict[str, str]]]]:
    """Chat records made here, from no task: a question, and its calculation as the answer.

    Args:
        count: How many; their questions differ.
        seed: Which.
        system: The system message that the harness sends.
        lead: What an instruction says before its question.
    """
    rng = random.Random(seed)
    answers: dict[str, str] = {}
    for question, answer in _questions(rng):
        answers.setdefault(question, answer)
        if len(answers) == count:
            break
    return [
        {
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": lead + question},
                {"role": "assistant", "content": answer},
            ]
        }
        for question, answer in answers.items()
    ]


def _questions(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Questions with answers such as `4*6+2 = 26`, without end."""
    material = json.loads((_HERE / "scripted_questions.json").read_text(encoding="utf-8"))
    while True:
        for expression, sentences in material["questions"].items():
            numbers, value = _numbers(expression, rng)
            question = rng.choice(sentences).format(
                name=rng.choice(material["names"]), items=rng.choice(material["items"]), **numbers
            )
            yield question, f"{expression.format(**numbers)} = {value}"


def _numbers(expression: str, rng: random.Random) -> tuple[dict[str, int], int]:
    """Operands of about the size that the development tasks have, and the expression's value."""
    a, b, c = rng.randint(2, 9), rng.randint(2, 12), rng.randint(1, 9)
    large = rng.randint(10, 45)
    match expression:
        case "{a}+{b}":
            b = rng.randint(2, 25)
            return {"a": large, "b": b}, large + b
        case "{a}-{b}":
            b = rng.randint(2, large - 1)
            return {"a": large, "b": b}, large - b
        case "{a}*{b}":
            return {"a": a, "b": b}, a * b
        case "{a}/{b}":
            return {"a": a * b, "b": a}, b
        case "{a}*{b}+{c}":
            return {"a": a, "b": b, "c": c}, a * b + c
        case "{a}*{b}-{c}":
            c = min(c, a * b - 1)
            return {"a": a, "b": b, "c": c}, a * b - c
        case "{a}+{b}-{c}":
            return {"a": large, "b": b, "c": c}, large + b - c
        case "{a}+{b}+{c}":
            return {"a": large, "b": b, "c": c}, large + b + c
        case _:
            raise ValueError(f"no numbers are known for {expression}")


def _short(model: str) -> str:
    return "the checkpoint" if model.startswith("tinker://") else model.rpartition("/")[2]


class RefusedError(RuntimeError):
    """The track does not allow a call."""


class Lab:
    """The environment as the researcher uses it: calls that must succeed, waited for."""

    def __init__(self, env: Any):
        self._env = env

    def call(self, op: str, **args: Any) -> dict[str, Any]:
        """The evidence of a call.

        Raises:
            RefusedError: The track does not allow it.
            RuntimeError: It was answered with anything else but OK.
        """
        observation, *_ = self._env.step({"op": op, "args": args})
        evidence = observation["evidence"]
        if observation["status"] != OK:
            kind = RefusedError if observation["status"] == REFUSED else RuntimeError
            raise kind(f"{op} was not done: {json.dumps(evidence)}")
        return evidence

    def free_usd(self) -> float:
        return self.call("budget.balance")["free_usd"]

    def evaluate(self, model: str, harness: str) -> dict[str, Any]:
        """The status of an evaluation on development tasks, once it has ended."""
        handle = self.call(
            "evaluation.submit", model=model, harness=harness, n_tasks=DEVELOPMENT_TASKS
        )["handle"]
        self._wait(handle)
        status = self.call("evaluation.status", handle=handle)
        print(f"{handle}: {_short(model)} with {harness}/ scores {status['score']:.3f}.")
        return status

    def read_failures(self, evaluation: dict[str, Any]) -> tuple[str, str]:
        """Show what the model said in a few failed trials.

        Returns:
            How the harness asks: its system message, and an instruction up to its question.
        """
        ran = [trial for trial in evaluation["trials"] if trial["error"] is None]
        failed = [trial for trial in ran if not trial["reward"]]
        system = lead = ""
        for trial in (failed or ran)[:FAILURES_TO_READ]:
            system, instruction, *replies = self._messages(evaluation["handle"], trial["trial"])
            before, newline, question = instruction.rpartition("\n")
            lead = before + newline
            print(f"  {trial['task']}: {question} -> {' / '.join(replies)[:80]!r}")
        return system, lead

    def train(self, records: list[dict[str, Any]], base: str, seed: int) -> str:
        """The checkpoint of a training run on `records`; with the track's settings, if need be."""
        lines = (json.dumps(record, ensure_ascii=False) for record in records)
        self.call("workspace.write", path="data/train.jsonl", content="\n".join(lines) + "\n")
        own = CONFIG | {"base_model": base, "lora_config": {"rank": 16, "seed": seed}}
        try:
            submitted = self.call("training.submit", data="data/train.jsonl", config=own)
        except RefusedError:
            submitted = self.call("training.submit", data="data/train.jsonl")
        handle = submitted["handle"]
        print(f"{handle}: {len(records)} records of my own, one epoch.")
        self._wait(handle)
        return self.call("training.status", handle=handle)["checkpoint"]

    def write_calculator(self) -> None:
        """A harness that calculates: a copy of the starting one with another `agent.py`."""
        for file in self.call("workspace.list", path="harness")["files"]:
            name = Path(file["path"]).name
            content = self.call("workspace.read", path=file["path"])["content"]
            self.call("workspace.write", path=f"calculator/{name}", content=content)
        program = (_HERE / "harness" / "calculator" / "agent.py").read_text(encoding="utf-8")
        self.call("workspace.write", path="calculator/agent.py", content=program)

    def _messages(self, handle: str, trial: str) -> list[str]:
        """What was said in a trial, from its trajectory."""
        text, offset = "", 0
        while offset is not None:
            piece = self.call(
                "evaluation.read",
                handle=handle,
                trial=trial,
                file="agent/trajectory.json",
                offset=offset,
            )
            text, offset = text + piece["content"], piece["next_offset"]
        return [step["message"] for step in json.loads(text)["steps"]]

    def _wait(self, handle: str) -> None:
        """Wait until what `handle` names has ended, and ended well."""
        while True:
            answer = self.call("run.wait", handles=[handle], timeout_s=60)
            for job in answer["ended"]:
                if job["state"] != "done":
                    raise RuntimeError(f"{handle} ended as {job['state']}: {json.dumps(job)}")
                return
