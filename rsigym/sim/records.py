"""Training records as the simulated world sees them: how many, how different, how good, what form.

All of it is read off the records: how long they are, how many say what others say, which are put as
a benchmark's own tasks are put, which fold reasoning into the answer, and which answers a simulated
model gave in this run. What cannot be found among those is the agent's own work, of one quality.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rsigym.operations.json_value import Json
from rsigym.operations.training import TrainingSubmit
from rsigym.services.chat_messages import ChatMessage
from rsigym.services.chat_record import check_record
from rsigym.services.training_data import checked_records, lines_of
from rsigym.services.training_records import TokenLists
from rsigym.sim.workspace import MemoryWorkspace

__all__ = ["CHARACTERS_A_TOKEN", "Answered", "Read", "read_records"]

CHARACTERS_A_TOKEN = 4
"""Of English text, about; the simulator has no tokenizer."""

_VOCABULARY = 2**20
_AROUND_MESSAGE = 4
"""Tokens that a chat template puts around a message."""
_FOLDED = re.compile(r"</?think(?:ing)?>|^(?:Reasoning|Thoughts?):", re.MULTILINE)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Read:
    """Training records, N of them.

    Attributes:
        name: What they are called in messages.
        lengths: Tokens of each, int64 (N,).
        trained: How many of each are trained, int64 (N,).
        diversity: Which share is not said by the others: the mean of the share of different texts
            and the share of different wordings, which are texts without their numbers.
        folded: The share that folds reasoning into an answer.
        leads: Of each record how its questions begin, up to the first comma.
        answers: The answers of each record.
    """

    name: str
    lengths: npt.NDArray[np.int64]
    trained: npt.NDArray[np.int64]
    diversity: float
    folded: float
    leads: tuple[frozenset[str], ...]
    answers: tuple[tuple[str, ...], ...]

    def share(self, lead: str) -> float:
        """How many of the records are put as the tasks that begin with `lead`."""
        return sum(lead in each for each in self.leads) / len(self.leads)

    def quality(self, answered: "Answered", own: float, level: float) -> float:
        """The mean quality of the answers.

        Args:
            own: Of an answer that no model of the run gave.
            level: Of an answer of the model that is trained, or of its checkpoints.
        """
        if not answered:
            return own
        total = 0.0
        for each in self.answers:
            found = [answered[text] for text in each if text in answered]
            total += max(level if one is None else one for one in found) if found else own
        return total / len(self.answers)


type Answered = dict[str, float | None]
"""Every text that a model answered in a run, with the quality of a frontier model, None for the
run's own model."""


def read_records(operation: TrainingSubmit, workspace: MemoryWorkspace) -> Read:
    """The records of a call.

    Raises:
        BadCall: There are none, or one of them is none; the message says which and why.
    """
    data = operation.data
    if operation.config.records == "tokens":
        return _read_tokens(*_items(data, workspace))
    if isinstance(data, str):
        return _read_file(data, workspace.read(data))
    return _read_chats(*_items(data, workspace))


def _items(
    data: str | list[dict[str, Json]], workspace: MemoryWorkspace
) -> tuple[Sequence[tuple[int, bytes | dict[str, Json]]], str, str]:
    if isinstance(data, str):
        return [*lines_of(io.BytesIO(workspace.read(data)))], data, "line"
    return [*enumerate(data, start=1)], "data", "record"


def _read_tokens(
    items: Sequence[tuple[int, bytes | dict[str, Json]]], name: str, where: str
) -> Read:
    """Tokens are no text: all that is seen of them is how many there are, and how different."""
    read = TokenLists(_VOCABULARY, "unread").read
    examples = [each.value for each in checked_records(items, name, where, read)]
    different = {example.tokens.tobytes() for example in examples}
    return Read(
        name,
        np.array([len(example.tokens) for example in examples]),
        np.array([int(example.trained.sum()) for example in examples]),
        len(different) / len(examples),
        0.0,
        (frozenset(),) * len(examples),
        ((),) * len(examples),
    )


@lru_cache(maxsize=16)
def _read_file(name: str, content: bytes) -> Read:
    return _read_chats([*lines_of(io.BytesIO(content))], name, "line")


def _read_chats(
    items: Sequence[tuple[int, bytes | dict[str, Json]]], name: str, where: str
) -> Read:
    read = checked_records(items, name, where, check_record)
    chats = [each.value.messages for each in read]
    texts = ["\n".join(message["content"] for message in chat) for chat in chats]
    wordings = {_NUMBER.sub("0", text) for text in texts}
    answers = tuple(
        tuple(message["content"] for message in chat if message["role"] == "assistant")
        for chat in chats
    )
    return Read(
        name,
        np.array([_tokens(chat) for chat in chats]),
        np.array([1 + len("".join(each)) // CHARACTERS_A_TOKEN for each in answers]),
        (len({*texts}) + len(wordings)) / (2 * len(texts)),
        sum(bool(_FOLDED.search("\n".join(each))) for each in answers) / len(chats),
        tuple(map(_leads, chats)),
        answers,
    )


def _tokens(chat: Sequence[ChatMessage]) -> int:
    characters = sum(len(message["content"]) for message in chat)
    return 1 + characters // CHARACTERS_A_TOKEN + _AROUND_MESSAGE * len(chat)


def _leads(chat: Sequence[ChatMessage]) -> frozenset[str]:
    asked = (message["content"] for message in chat if message["role"] == "user")
    return frozenset(each.partition(",")[0] for each in asked)
