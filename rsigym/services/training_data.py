"""Training records: messages JSONL, or records given inline, checked line by line.

A record is `{"messages": [{"role", "content"}, …]}`; other fields of a record are notes and are
not used. Lines end with LF or CRLF; a line separator inside a string, such as U+2028, is text.
Whatever the bytes are, reading them gives records or one `BadCall` that names the first bad line.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypedDict, cast, get_args

from rsigym.operations.json_value import Json
from rsigym.platform.errors import BadCall
from rsigym.services.workspace_files import Workspace

__all__ = ["ChatMessage", "Record", "Role", "TrainingData", "open_data"]

type Role = Literal["system", "user", "assistant"]
_ROLES = get_args(Role.__value__)

_MAX_LINE = 4 * 2**20
"""Bytes of one line: more is a file without line breaks, which would be read into memory whole."""

_BOM = b"\xef\xbb\xbf"


class ChatMessage(TypedDict):
    """One message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Record:
    """One conversation to train on.

    Attributes:
        where: "line" in a file, "record" inline; with `number`, from 1, it finds the record again.
        messages: At least one of them is an assistant's.
    """

    where: str
    number: int
    messages: list[ChatMessage]


class TrainingData(Protocol):
    """Records that were submitted.

    Attributes:
        name: What they are called in messages to the agent.
    """

    name: str

    def records(self) -> Iterator[Record]:
        """The records in order, in bounded memory.

        Raises:
            BadCall: Behind the last good record before it: something that is no record, or
                nothing at all.
        """
        ...

    def keep(self, path: Path) -> None:
        """Write them to `path` as they were when they were opened.

        Raises:
            BadCall: They have changed since.
        """
        ...


def open_data(data: str | list[dict[str, Json]], workspace: Workspace) -> TrainingData:
    """The records of a file of the workspace, or those that came with the call.

    Raises:
        BadCall: There is no such file.
    """
    return _File(data, workspace.file(data)) if isinstance(data, str) else _Inline(data)


class _File:
    def __init__(self, name: str, path: Path):
        self.name = name
        self._path = path
        self._digest = _digest(path)

    def records(self) -> Iterator[Record]:
        yield from _checked(_lines(self._path), self.name, "line")

    def keep(self, path: Path) -> None:
        shutil.copyfile(self._path, path)
        if _digest(path) != self._digest:
            path.unlink()
            raise BadCall(
                f"{self.name} changed while it was being submitted: submit it again", file=self.name
            )


class _Inline:
    name = "data"

    def __init__(self, data: list[dict[str, Json]]):
        self._data = data

    def records(self) -> Iterator[Record]:
        yield from _checked(enumerate(self._data, start=1), self.name, "record")

    def keep(self, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in self._data)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked(
    items: Iterable[tuple[int, bytes | dict[str, Json]]], name: str, where: str
) -> Iterator[Record]:
    """The good items until the first bad one; the bad ones after it are only counted."""
    first: BadCall | None = None
    bad = seen = 0
    for number, item in items:
        seen += 1
        try:
            value = _parse(item) if isinstance(item, bytes) else item
            record = Record(where, number, _messages(value))
        except BadCall as error:
            bad += 1
            first = first or BadCall(
                f"{name}, {where} {number}: {error.message}", file=name, **{where: number}
            )
            continue
        if first is None:
            yield record
    if first is not None:
        more = f" ({bad - 1} more are bad)" if bad > 1 else ""
        raise BadCall(first.message + more, **first.details, bad=bad)
    if not seen:
        raise BadCall(f"{name} is empty: give at least one record", file=name)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank, without their ends."""
    with path.open("rb") as file:
        if file.read(len(_BOM)) != _BOM:
            file.seek(0)
        number = 0
        while line := file.readline(_MAX_LINE + 1):
            number += 1
            if line.strip():
                yield number, line
            while len(line) > _MAX_LINE and not line.endswith(b"\n"):
                line = file.readline(_MAX_LINE + 1)


def _parse(line: bytes) -> object:
    if len(line) > _MAX_LINE:
        raise BadCall(f"the line is longer than {_MAX_LINE:,} bytes: write one record a line")
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise BadCall(f"byte {error.start} is not UTF-8: save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadCall(f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise BadCall(f"not usable JSON: {error}") from None


def _messages(record: object) -> list[ChatMessage]:
    if not isinstance(record, dict):
        raise BadCall('a record is an object, {"messages": […]}, not ' + _kind(record))
    if "messages" not in record:
        raise BadCall('the record has no "messages"')
    if "tools" in record:
        raise BadCall('"tools" are not supported: leave them out')
    messages = cast(object, record["messages"])
    if not isinstance(messages, list) or not messages:
        raise BadCall('"messages" must be a list of at least one message')
    checked = [_message(index, message) for index, message in enumerate(messages)]
    if not any(message["role"] == "assistant" for message in checked):
        raise BadCall("no message is the assistant's, so there is nothing to train on")
    return checked


def _message(index: int, message: object) -> ChatMessage:
    what = f"messages[{index}]"
    if not isinstance(message, dict):
        raise BadCall(f'{what} must be an object, {{"role", "content"}}, not {_kind(message)}')
    if message.get("role") not in _ROLES:
        raise BadCall(f"{what}: role must be {', '.join(_ROLES)}, not {_shown(message, 'role')}")
    if not isinstance(message.get("content"), str):
        raise BadCall(f"{what}: content must be a string, not {_shown(message, 'content')}")
    unknown = [key for key in message if key not in {"role", "content"}]
    if unknown:
        raise BadCall(f"{what}: field {_safe(unknown[0])!r} is not supported: leave it out")
    try:
        message["content"].encode()
    except UnicodeEncodeError as error:
        raise BadCall(
            f"{what}: content has a lone surrogate at character {error.start}, which is no text"
        ) from None
    return {"role": message["role"], "content": message["content"]}


def _shown(message: dict[object, object], field: str) -> str:
    if field not in message:
        return "missing"
    value = message[field]
    return repr(_safe(value)) if isinstance(value, str) else _kind(value)


def _safe(value: object) -> str:
    """A short form that can be shown and stored whatever it holds."""
    return str(value)[:50].encode(errors="replace").decode()


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
