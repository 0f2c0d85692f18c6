"""The model of this trial, and the record of what was said to it."""

import json
import os
import sys
import urllib.error
import urllib.request

__all__ = ["Trajectory", "complete"]

TRAJECTORY = "/logs/agent/trajectory.json"


def complete(messages: list[dict[str, str]], max_tokens: int) -> str:
    """The model's likeliest reply to a conversation, of at most `max_tokens` tokens."""
    body = {
        "model": os.environ["OPENAI_MODEL"],
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0,
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
            return json.load(response)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        sys.exit(f"the model answered {error.code}: {error.read().decode(errors='replace')}")


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
