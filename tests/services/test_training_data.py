"""Whatever the bytes of a data file are: records, or one message that says where and what."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsigym.operations.json_value import Json
from rsigym.platform.errors import BadCall
from rsigym.services.chat_messages import ChatMessage, check_record
from rsigym.services.training_data import Record, open_data
from rsigym.services.workspace_files import Workspace

GOOD: list[ChatMessage] = [
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "content": "4"},
]
LINE = json.dumps({"messages": GOOD}).encode()


def _read(folder: Path, data: bytes) -> list[Record[list[ChatMessage]]]:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "train.jsonl").write_bytes(data)
    return list(open_data("data/train.jsonl", Workspace(folder)).records(check_record))


def _line(*messages: object) -> bytes:
    return json.dumps({"messages": messages}).encode()


@pytest.mark.parametrize(
    ("data", "numbers"),
    [
        (LINE, [1]),
        (LINE + b"\n" + LINE + b"\n", [1, 2]),
        (b"\xef\xbb\xbf" + LINE + b"\n", [1]),
        (LINE + b"\r\n" + LINE + b"\r\n", [1, 2]),
        (b"\n  \n" + LINE + b"\n\n" + LINE, [3, 5]),
        (json.dumps({"messages": GOOD, "source": "mine"}).encode(), [1]),
    ],
    ids=["no end", "LF", "BOM", "CRLF", "blank lines", "notes beside the messages"],
)
def test_good_files_are_read(tmp_path: Path, data: bytes, numbers: list[int]) -> None:
    records = _read(tmp_path, data)
    assert [record.number for record in records] == numbers
    assert all(record.value == GOOD for record in records)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
def test_unicode_line_separators_inside_a_string_are_text(tmp_path: Path, mark: str) -> None:
    content = f"one{mark}two"
    reply = {"role": "assistant", "content": content}
    raw = json.dumps({"messages": [GOOD[0], reply]}, ensure_ascii=mark < " ").encode()
    assert _read(tmp_path, raw + b"\n" + LINE)[0].value[1]["content"] == content


USER, REPLY = GOOD


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b'{"messages": [', "not JSON"),
        (b"[1]", "not a list"),
        (b"null", "not null"),
        (b"{}", 'no "messages"'),
        (_line(), "at least one message"),
        (b'{"messages": {"role": "user"}}', "at least one message"),
        (_line("hello"), "must be an object"),
        (_line({"role": "bot", "content": "x"}), "role must be system, user, assistant, not 'bot'"),
        (_line({"content": "x"}), "not missing"),
        (_line({"role": ["user"], "content": "x"}), "not a list"),
        (_line(USER, {"role": "assistant", "content": None}), "content must be a string, not null"),
        (_line(USER, {"role": "assistant"}), "content must be a string, not missing"),
        (_line(USER, {**REPLY, "tool_calls": []}), "'tool_calls' is not supported"),
        (_line(USER), "nothing to train on"),
        (_line(USER, {"role": "assistant", "content": "\ud800"}), "lone surrogate"),
        (_line({"role": "\ud800", "content": "x"}), "role must be"),
        (b'{"messages": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "JSON"),
        (b"1" * 5000, "JSON"),
        (json.dumps({"messages": GOOD, "tools": []}).encode(), '"tools" are not supported'),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, bad: bytes, says: str) -> None:
    with pytest.raises(BadCall) as caught:
        _read(tmp_path, LINE + b"\n\n" + bad + b"\n" + LINE)
    assert caught.value.message.startswith("data/train.jsonl, line 3: ")
    assert says in caught.value.message
    assert caught.value.details == {"file": "data/train.jsonl", "line": 3, "bad": 1}
    json.dumps(caught.value.evidence()).encode()


def test_further_bad_lines_are_counted(tmp_path: Path) -> None:
    with pytest.raises(BadCall, match=r"line 2: .*\(2 more") as caught:
        _read(tmp_path, b"\n".join([LINE, b"{", LINE, b"{}", b"[]"]))
    assert caught.value.details["bad"] == 3


@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_a_bad_call(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadCall, match="is empty"):
        _read(tmp_path, data)


def test_inline_records_are_checked_alike(tmp_path: Path) -> None:
    good: dict[str, Json] = json.loads(LINE)
    data = open_data([good], Workspace(tmp_path))
    assert [record.value for record in data.records(check_record)] == [GOOD]
    data.keep(tmp_path / "kept.jsonl")
    assert _read(tmp_path, (tmp_path / "kept.jsonl").read_bytes())[0].value == GOOD
    with pytest.raises(BadCall, match=r"^data, record 2: "):
        list(open_data([good, {"messages": 1}], Workspace(tmp_path)).records(check_record))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(b"x" * 2**20)
        file.write(b"\n" + LINE)
    tracemalloc.start()
    try:
        with pytest.raises(BadCall, match="line 1: the line is longer than") as caught:
            list(open_data("train.jsonl", Workspace(tmp_path)).records(check_record))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.details["bad"] == 1
    assert peak < 48 * 2**20


_pieces = st.sampled_from(
    [LINE, b"\n", b"\r\n", b"\xef\xbb\xbf", b"{", b'{"messages": [', b"\xff", b"\xe2\x80\xa8", b" "]
) | st.binary(max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.lists(_pieces, max_size=8).map(b"".join))
def test_any_bytes_give_records_or_a_bad_call(tmp_path: Path, data: bytes) -> None:
    try:
        records = _read(tmp_path, data)
    except BadCall as error:
        json.dumps(error.evidence()).encode()
    else:
        assert records
        assert all(record.value[-1]["content"].encode() for record in records)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["messages", "role", "content", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=_json)
def test_any_json_gives_records_or_a_bad_call(tmp_path: Path, value: object) -> None:
    try:
        assert _read(tmp_path, json.dumps(value).encode())
    except BadCall as error:
        json.dumps(error.evidence()).encode()
