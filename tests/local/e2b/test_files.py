"""Files by the SDK: read, write, list, move, remove, and URLs that are signed."""

import hashlib
import io
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import e2b
import httpx
import pytest
from e2b.sandbox.filesystem.filesystem import FileType

from tests.local.e2b.sdk import Api

_BYTES = bytes(range(256)) * 5000  # more than one piece


def test_text_bytes_and_streams_come_back_as_they_went_in(sandbox: Any) -> None:
    files = sandbox.files
    info = files.write("notes/a.txt", "äöü\n")
    assert (info.name, info.path, info.type) == ("a.txt", "/home/user/notes/a.txt", FileType.FILE)
    assert files.read("notes/a.txt") == "äöü\n"
    files.write("/tmp/b", _BYTES)
    assert files.read("/tmp/b", format="bytes") == _BYTES
    assert b"".join(files.read("/tmp/b", format="stream")) == _BYTES
    files.write("/tmp/b", "short")
    assert files.read("/tmp/b") == "short"
    files.write("empty", "")
    assert files.read("empty") == ""
    assert sandbox.commands.run("cat notes/a.txt").stdout == "äöü\n"


def test_gzip_is_spoken_both_ways(sandbox: Any) -> None:
    sandbox.files.write("/tmp/a", _BYTES, gzip=True)
    assert sandbox.files.read("/tmp/a", format="bytes") == _BYTES
    assert sandbox.files.read("/tmp/a", format="bytes", gzip=True) == _BYTES
    assert b"".join(sandbox.files.read("/tmp/a", format="stream", gzip=True)) == _BYTES


def test_files_and_iterators_are_streamed_in(api: Api, sandbox: Any, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(_BYTES)

    def pieces() -> Iterator[bytes]:
        yield from (_BYTES, b"end")

    async def async_pieces() -> AsyncIterator[bytes]:
        for piece in pieces():
            yield piece

    with open(tmp_path / "source", "rb") as source:
        sandbox.files.write("/tmp/a", source)
    sandbox.files.write("/tmp/b", pieces() if api.name == "sync" else async_pieces())
    assert sandbox.files.read("/tmp/a", format="bytes") == _BYTES
    assert sandbox.files.read("/tmp/b", format="bytes") == _BYTES + b"end"


@pytest.mark.parametrize("octets", [False, True])
def test_many_files_are_written_at_once(sandbox: Any, octets: bool) -> None:
    entries = [
        {"path": "/tmp/many/one", "data": "1"},
        {"path": "many/two ü", "data": _BYTES},
        {"path": "three", "data": io.BytesIO(b"3")},
    ]
    written = sandbox.files.write_files(entries, use_octet_stream=octets)
    paths = ["/tmp/many/one", "/home/user/many/two ü", "/home/user/three"]
    assert [info.path for info in written] == paths
    assert [bytes(sandbox.files.read(path, format="bytes")) for path in paths] == [
        b"1",
        _BYTES,
        b"3",
    ]
    assert sandbox.files.write_files([]) == []


def test_a_folder_is_listed_to_a_depth(sandbox: Any) -> None:
    files = sandbox.files
    files.write("/tmp/top/a", "xyz")
    files.write("/tmp/top/below/b", "")
    sandbox.commands.run("ln -s a /tmp/top/link; chmod 640 /tmp/top/a")
    entries = {entry.name: entry for entry in files.list("/tmp/top")}
    assert entries.keys() == {"a", "below", "link"}
    a = entries["a"]
    assert (a.path, a.type, a.size, a.mode) == ("/tmp/top/a", FileType.FILE, 3, 0o640)
    assert (a.permissions, a.owner, a.symlink_target) == ("-rw-r-----", "user", None)
    assert entries["below"].type == FileType.DIR
    assert (entries["link"].type, entries["link"].symlink_target) == (
        FileType.SYMLINK,
        "/tmp/top/a",
    )
    deep = {entry.path for entry in files.list("/tmp/top", depth=2)}
    assert deep == {f"/tmp/top/{name}" for name in ("a", "below", "below/b", "link")}
    with pytest.raises(e2b.FileNotFoundException):
        files.list("/tmp/nowhere")
    with pytest.raises(e2b.InvalidArgumentException):
        files.list("/tmp/top/a")


def test_what_is_there_can_be_asked(sandbox: Any) -> None:
    sandbox.files.write("a", "abc")
    assert sandbox.files.exists("a")
    assert not sandbox.files.exists("b")
    info = sandbox.files.get_info("a")
    assert (info.name, info.path, info.size) == ("a", "/home/user/a", 3)
    assert info.modified_time.timestamp() > 1.7e9
    assert sandbox.files.get_info("/home/user").type == FileType.DIR
    with pytest.raises(e2b.FileNotFoundException):
        sandbox.files.get_info("b")


def test_folders_are_made_moved_and_removed(sandbox: Any) -> None:
    files = sandbox.files
    assert files.make_dir("x/y/z") is True
    assert files.make_dir("x/y/z") is False
    files.write("x/y/z/file", "1")
    moved = files.rename("x/y", "moved")
    assert (moved.path, moved.type) == ("/home/user/moved", FileType.DIR)
    assert files.read("moved/z/file") == "1"
    assert not files.exists("x/y")
    files.remove("moved")
    assert not files.exists("moved")
    with pytest.raises(e2b.FileNotFoundException):
        files.rename("nowhere", "elsewhere")


def test_what_cannot_be_read_or_written_says_why(sandbox: Any) -> None:
    files = sandbox.files
    files.write("file", "x")
    with pytest.raises(e2b.FileNotFoundException):
        files.read("nowhere")
    with pytest.raises(e2b.FileNotFoundException):
        b"".join(files.read("nowhere", format="stream"))
    with pytest.raises(e2b.InvalidArgumentException, match="directory"):
        files.read("/tmp")
    with pytest.raises(e2b.InvalidArgumentException):
        files.write("file/below", "x")
    with pytest.raises(e2b.InvalidArgumentException):
        files.make_dir("file/below")
    with pytest.raises(e2b.SandboxException):
        files.write("/usr/bin/ls", "x")
    with pytest.raises(e2b.SandboxException, match=r"501.*metadata"):
        files.write("file", "x", metadata={"a": "b"})


def test_links_lead_nowhere_on_the_host(sandbox: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    sandbox.commands.run(f"ln -s {secret} /tmp/link; ln -s / /tmp/root")
    for path in ("/tmp/link", f"/tmp/root{secret}", f"/proc/1/root{secret}"):
        with pytest.raises((e2b.SandboxException, e2b.NotFoundException)):
            sandbox.files.read(path)
    sandbox.files.write(f"/tmp/root{tmp_path}/new", "of the sandbox's own")
    assert [it.name for it in tmp_path.iterdir()] == ["secret"]


def test_large_files_are_whole(sandbox: Any) -> None:
    content = os.urandom(1 << 20) * 20
    sandbox.files.write("/tmp/large", io.BytesIO(content))
    digest = hashlib.sha256(content).hexdigest()
    assert sandbox.commands.run("sha256sum /tmp/large").stdout.split()[0] == digest
    assert hashlib.sha256(sandbox.files.read("/tmp/large", format="bytes")).hexdigest() == digest


def test_a_signed_url_is_enough(sandbox: Any) -> None:
    upload = sandbox.upload_url("/tmp/a ä")
    assert httpx.post(upload, files={"file": ("ignored", b"content")}).status_code == 200
    download = sandbox.download_url("/tmp/a ä", use_signature_expiration=60)
    assert httpx.get(download).content == b"content"
    assert httpx.get(sandbox.download_url("/tmp/a ä", user="root")).content == b"content"


def test_a_signature_is_for_one_file_one_operation_and_its_time(sandbox: Any) -> None:
    sandbox.files.write("/tmp/a", "content")
    download = sandbox.download_url("/tmp/a")
    forged = [
        download.replace("tmp", "etc"),
        download.replace("v1_", "v1_x"),
        download + "&signature_expiration=9999999999",
        download + "&username=root",
        sandbox.upload_url("/tmp/a"),
        sandbox.download_url("/tmp/a", use_signature_expiration=-10),
        sandbox.download_url("/tmp/a").split("&signature")[0],
    ]
    for url in forged:
        assert httpx.get(url).status_code in (401, 502), url
    assert httpx.post(download, files={"file": ("a", b"x")}).status_code == 401
