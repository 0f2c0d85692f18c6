"""What an agent can reach in its workspace, and what it cannot."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsigym.operations.workspace import WorkspaceList, WorkspaceRead, WorkspaceWrite
from rsigym.platform.errors import BadCall
from rsigym.services.workspace import WorkspaceService
from rsigym.services.workspace_files import MAX_FILE_BYTES, Workspace
from tests.services.conftest import Bench


@pytest.fixture
def workspace(bench: Bench) -> Workspace:
    return bench.workspace


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "a\0b", "..", "\ud800"])
def test_paths_outside_are_refused(workspace: Workspace, path: str) -> None:
    for use in (workspace.resolve, workspace.file, lambda it: workspace.write_text(it, "x")):
        with pytest.raises(BadCall):
            use(path)


def test_a_name_that_no_file_can_have_is_refused(workspace: Workspace) -> None:
    for use in (workspace.file, lambda path: workspace.write_text(path, "x")):
        with pytest.raises(BadCall):
            use("x" * 500)


def test_links_that_lead_out_are_refused(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (workspace.root / "out").symlink_to(tmp_path)
    (workspace.root / "loop").symlink_to("loop")
    for path in ("out/secret", "out", "loop"):
        with pytest.raises(BadCall):
            workspace.read_text(path, 0, 10)
        with pytest.raises(BadCall):
            workspace.write_text(path + "/new", "x")
    assert not (tmp_path / "new").exists()


def test_a_link_inside_is_followed(workspace: Workspace) -> None:
    workspace.write_text("a.txt", "hello")
    (workspace.root / "b.txt").symlink_to("a.txt")
    assert workspace.read_text("b.txt", 0, 10) == ("hello", False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=200), limit=st.integers(1, 50))
def test_pages_put_together_are_the_file(bench: Bench, text: str, limit: int) -> None:
    text = text.replace("\0", "")
    service = WorkspaceService(bench.workspace)
    bench.workspace.write_text("notes.md", text)
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        operation = WorkspaceRead(path="notes.md", offset=offset, limit=limit)
        page: dict[str, Any] = bench.call(service, operation)
        pages.append(page["content"])
        assert page["size"] == len(text.encode())
        offset = page["next_offset"]
    assert "".join(pages) == text


def test_reading_past_the_end_is_empty(bench: Bench) -> None:
    bench.workspace.write_text("notes.md", "abc")
    operation = WorkspaceRead(path="notes.md", offset=100_000)
    page: dict[str, Any] = bench.call(WorkspaceService(bench.workspace), operation)
    assert (page["content"], page["next_offset"]) == ("", None)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"a\0b"])
def test_binary_files_are_not_read(workspace: Workspace, data: bytes) -> None:
    (workspace.root / "model.bin").write_bytes(data)
    with pytest.raises(BadCall, match=r"not UTF-8|binary"):
        workspace.read_text("model.bin", 0, 10)


def test_pipes_are_not_opened(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    with pytest.raises(BadCall, match="is not a file"):
        workspace.read_text("pipe", 0, 10)


def test_writing_makes_folders_appends_and_marks_programs(bench: Bench) -> None:
    service = WorkspaceService(bench.workspace)
    first = WorkspaceWrite(path="harness/run.sh", content="#!/bin/sh\n", executable=True)
    assert bench.call(service, first) == {"path": "harness/run.sh", "size": 10}
    more = WorkspaceWrite(path="harness/run.sh", content="echo hi\n", append=True)
    assert bench.call(service, more)["size"] == 18
    file = bench.workspace.root / "harness" / "run.sh"
    assert file.read_text() == "#!/bin/sh\necho hi\n"
    bench.call(service, WorkspaceWrite(path="harness/run.sh", content="new"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    assert file.read_text() == "new"
    assert [path.name for path in file.parent.iterdir()] == ["run.sh"]


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("folder", "x", "is a folder"),
        ("file/below", "x", "cannot be written"),
        ("new", "\ud800", "lone surrogate"),
    ],
)
def test_what_cannot_be_written_is_refused(
    workspace: Workspace, path: str, content: str, says: str
) -> None:
    workspace.write_text("folder/x", "")
    workspace.write_text("file", "")
    with pytest.raises(BadCall, match=says):
        workspace.write_text(path, content)


def test_a_file_cannot_grow_for_ever(workspace: Workspace) -> None:
    with (workspace.root / "big").open("wb") as big:
        big.truncate(MAX_FILE_BYTES)
    with pytest.raises(BadCall, match="the most is"):
        workspace.write_text("big", "x", append=True)


def test_listing_shows_files_with_sizes(bench: Bench, tmp_path: Path) -> None:
    bench.workspace.write_text("b/two.txt", "22")
    bench.workspace.write_text("a.txt", "1")
    (bench.workspace.root / "out").symlink_to(tmp_path)
    service = WorkspaceService(bench.workspace)
    everything: dict[str, Any] = bench.call(service, WorkspaceList())
    listed = [(file["path"], file["size"]) for file in everything["files"]]
    assert listed == [("a.txt", 1), ("b/two.txt", 2)]
    assert everything["more"] is False
    below: dict[str, Any] = bench.call(service, WorkspaceList(path="b"))
    assert [file["path"] for file in below["files"]] == ["b/two.txt"]
    with pytest.raises(BadCall, match="is not a folder"):
        bench.call(service, WorkspaceList(path="a.txt"))
