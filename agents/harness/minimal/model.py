"""The model of this trial, and the record of what was said to it."""

import json
import os
import sys
import urllib.error
import urllib.request

__all__ = ["Trajectory", "complete", "sample"]

TRAJECTORY = "/logs/agent/trajectory.json"


def complete(messages: list[dict[str, str]], max_tokens: int) -> str:
    """The model's likeliest reply to a conversation, of at most `max_tokens` tokens."""
    return sample(messages, max_tokens, n=1, temperature=0)[0]


def sample(
    messages: list[dict[str, str]], max_tokens: int, n: int, temperature: float
) -> list[str]:
    """`n` replies to a conversation, drawn at a temperature."""
    body = {
        "model": os.environ["OPENAI_MODEL"],
        "messages": messages,
        "max_tokens": max_tokens,
        "n": n,
        "temperature": temperature,
    }
    request = urllib.request.Request(
        os.environ["OPENAI_API_BASE"] + "/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request) as response:
            choices = json.load(response)["choices"]
    except urllib.error.HTTPError as error:
        sys.exit(f"the model answered {error.code}: {error.read().decode(errors='replace')}")
    return [choice["message"]["content"] for choice in choices]


class Trajectory:
    """What happened, in the Agent Trajectory Interchange Format (ATIF v1.7).

    The file is written anew with every step, so that a trial that is stopped leaves its own too.
    """

    def __init__(self, harness: str):
        self._steps: list[dict[str, object]] = []
        self._document = {
            "schema_version": "ATIF-v1.7",
            "agent": {"name": harness, "version": "1", "model_name": os.environ["OPENAI_MODEL"]},
            "steps": self._steps,
        }

    def add(self, source: str, message: str, **fields: object) -> None:
        """One step: `source` is system, user or agent; `fields` are ATIF's own."""
        self._steps.append(
            {"step_id": len(self._steps) + 1, "source": source, "message": message, **fields}
        )
        with open(TRAJECTORY, "w", encoding="utf-8") as file:
            json.dump(self._document, file, ensure_ascii=False, indent=1)
