"""Files of a run folder: whole or as they were, and readable up to where they were torn."""

import json
from pathlib import Path

import pytest

from rsigym.platform.records import read_lines, write_json


def test_two_who_write_one_file_leave_what_one_of_them_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "score.json"
    replace, others = Path.replace, ["the other"]

    def interrupted(self: Path, target: Path) -> Path:
        """Between one's writing and its replacing, another one does both."""
        if others:
            write_json(path, others.pop())
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    write_json(path, "this one")
    assert json.loads(path.read_text()) == "this one"
    assert [*tmp_path.iterdir()] == [path]


def test_what_cannot_be_written_leaves_the_old_text_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_json(path, 1)
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})  # pyright: ignore[reportArgumentType]
    assert json.loads(path.read_text()) == 1
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("torn", ['{"a": "é'.encode()[:-1], b'{"a": 1', b"12", b""])
def test_lines_are_read_up_to_the_one_that_was_not_written_whole(
    tmp_path: Path, torn: bytes
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\r\n{"step": 2}\n' + torn)
    assert [*read_lines(path)] == [{"step": 1}, {"step": 2}]
    assert [*read_lines(tmp_path / "none.jsonl")] == []
