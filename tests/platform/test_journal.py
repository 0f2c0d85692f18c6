"""The journal: whole lines, whatever happened to the one before."""

import os
from pathlib import Path

import pytest

from rsigym.platform.journal import Journal, read_journal
from rsigym.platform.ledger import Item


def calls(path: Path) -> list[str]:
    return [event["call"] for event in read_journal(path)]


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.begin("run/1", "inference.chat", durable=True)
    journal.end("run/1", [Item("inference", "sample", 3, "token", 30)])
    journal.close()
    begin, end = read_journal(path)
    assert begin == {"event": "begin", "call": "run/1", "op": "inference.chat"}
    [item] = end["items"]
    assert Item(**item) == Item("inference", "sample", 3, "token", 30)


def test_there_is_nothing_in_a_journal_that_is_not_there(tmp_path: Path) -> None:
    assert calls(tmp_path / "journal.jsonl") == []


@pytest.mark.parametrize("torn", [b'{"event": "beg', b"\x00" * 9, b'{"a": 1}', b"\xff\xfe"])
def test_a_torn_line_at_the_end_harms_no_other(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    first = Journal(path)
    first.begin("run/1", "op", durable=False)
    first.close()
    with path.open("ab") as file:
        file.write(torn)
    second = Journal(path)
    second.begin("run/2", "op", durable=False)
    second.begin("run/3", "op", durable=False)
    second.close()
    assert [event.get("call") for event in read_journal(path) if "event" in event] == [
        "run/1",
        "run/2",
        "run/3",
    ]


def test_several_journals_of_one_file_do_not_write_over_each_other(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journals = [Journal(path), Journal(path)]
    for number in range(10):
        journals[number % 2].begin(f"run/{number}", "op", durable=False)
    assert calls(path) == [f"run/{number}" for number in range(10)]


def test_a_closed_journal_says_so_and_writes_into_nobody_elses_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.close()
    journal.close()
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    with pytest.raises(OSError, match="descriptor"):
        journal.begin("run/1", "op", durable=True)
    journal.end("run/1", [])
    assert os.fstat(other).st_size == 0
    os.close(other)
