"""A training record, and what a researcher has seen of a benchmark before making any."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Record", "Seen", "material", "record"]

type Record = dict[str, list[dict[str, str]]]
"""`{"messages": [{"role": …, "content": …}, …]}`."""


@dataclass(frozen=True)
class Seen:
    """One development trial of the initial system.

    Attributes:
        system: The system message that its harness sends.
        instruction: What the task asks.
        files: What lay in the sandbox, by path.
    """

    system: str
    instruction: str
    files: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def lead(self) -> str:
        """What the instruction says before it comes to its own question: the form of an answer."""
        return self.instruction.partition("\n\n")[0] + "\n\n"


def record(system: str, *turns: str) -> Record:
    """The record of a conversation: after the system message, user and assistant in turn."""
    messages = [{"role": "system", "content": system}]
    for number, text in enumerate(turns):
        messages.append({"role": "assistant" if number % 2 else "user", "content": text})
    return {"messages": messages}


@cache
def material(benchmark: str) -> Any:
    """The words that records are made of, from the JSON file of that name."""
    return json.loads(Path(__file__).with_name(f"{benchmark}.json").read_text(encoding="utf-8"))
