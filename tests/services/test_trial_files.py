"""The files that a trial left: which are shown, and how they are read."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsigym.platform.errors import BadCall
from rsigym.services.trial_files import TrialFile, list_trial_files, read_trial_file


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """A trial's folder as the platform keeps it, with one file of each of its parts."""
    for name in ("agent/b.txt", "agent/a/c.txt", "verifier/reward.txt", "config.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


SHOWN = ["agent/b.txt", "agent/a/c.txt", "verifier/reward.txt"]


def test_what_agent_and_verifier_left_is_shown_and_nothing_else(trial: Path) -> None:
    assert list_trial_files(trial) == [TrialFile(name, len(name)) for name in SHOWN]
    assert [read_trial_file(trial, name).text for name in SHOWN] == SHOWN


def test_links_and_pipes_are_not_files(trial: Path) -> None:
    (trial / "agent" / "link").symlink_to("/etc/passwd")
    (trial / "agent" / "folder").symlink_to("/etc")
    (trial / "artifacts").symlink_to("/etc")
    os.mkfifo(trial / "agent" / "pipe")
    shown = {file.name for file in list_trial_files(trial)}
    assert not {name for name in shown if name.startswith(("agent/link", "agent/f", "agent/p"))}


@pytest.mark.parametrize(
    "name",
    ["agent/link", "agent/folder/passwd", "agent/../config.json", "/etc/passwd", "config.json", ""],
)
def test_only_files_that_are_shown_are_read(trial: Path, name: str) -> None:
    (trial / "agent" / "link").symlink_to("/etc/passwd")
    (trial / "agent" / "folder").symlink_to("/etc")
    with pytest.raises(BadCall, match="no file") as refused:
        read_trial_file(trial, name)
    assert refused.value.details == {"files": SHOWN}


def test_a_trial_that_left_nothing_shows_nothing(tmp_path: Path) -> None:
    assert list_trial_files(tmp_path / "never-made") == []


def test_a_harness_that_leaves_very_many_files_is_cut_short(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    for n in range(1100):
        (tmp_path / "agent" / f"{n:04}").touch()
    assert [file.name for file in list_trial_files(tmp_path)] == [
        f"agent/{n:04}" for n in range(1000)
    ]


@settings(deadline=None)
@given(
    content=st.binary(max_size=300) | st.text("añ\r\n😀").map(str.encode),
    limit=st.integers(1, 70),
)
def test_the_pieces_of_a_file_are_the_file(content: bytes, limit: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "agent", "log.txt")
        path.parent.mkdir()
        path.write_bytes(content)
        text, more = "", True
        while more:
            piece = read_trial_file(Path(folder), "agent/log.txt", len(text), limit)
            text, more = text + piece.text, piece.more
            assert len(piece.text) == limit or not more
    assert text == content.decode(errors="replace")


def test_reading_past_the_end_answers_nothing(trial: Path) -> None:
    piece = read_trial_file(trial, "agent/b.txt", offset=10**9)
    assert (piece.text, piece.more) == ("", False)
