"""Packing harnesses: what is accepted, what is refused and why, and that content decides the id."""

import io
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsigym.platform.errors import BadCall
from rsigym.services import harness as harnesses
from rsigym.services.harness import Harness, pack

FILES = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}(\.py)?", fullmatch=True), st.binary(max_size=200), max_size=5
)


def folder_of(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def archive_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def unpacked(harness: Harness, folder: Path) -> dict[str, bytes]:
    harness.unpack(folder)
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


RUN = (member("run.sh"), b"true")


@settings(deadline=None)
@given(FILES, st.randoms())
def test_content_alone_decides_the_id(files: dict[str, bytes], random: Random) -> None:
    files = {**files, "run.sh": b"true"}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first = pack(folder_of(Path(one), files))
        names = list(files)
        random.shuffle(names)
        folder_of(Path(other), {name: files[name] for name in names})
        for name in names:
            os.utime(Path(other, name), (0, random.randrange(10**9)))
        second = pack(Path(other))
        assert unpacked(first, Path(one, "unpacked")) == files
    assert (first.id, first.archive) == (second.id, second.archive)
    assert first.size == sum(map(len, files.values()))


def test_a_folder_and_its_archive_are_one_harness(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "h", {"run.sh": b"python3 lib/a.py", "lib/a.py": b"print()"})
    (folder / "run.sh").chmod(0o755)
    with tarfile.open(tmp_path / "h.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname=".")
    assert pack(tmp_path / "h.tar.gz") == pack(folder)
    written = pack(folder).write(tmp_path / "out" / "h.tar.gz")
    assert pack(written) == pack(folder)
    pack(written).unpack(tmp_path / "again")
    assert pack(tmp_path / "again") == pack(folder)


def test_the_executable_bit_and_every_byte_count(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"run.sh": b"true"})
    plain = pack(folder).id
    (folder / "run.sh").chmod(0o755)
    executable = pack(folder).id
    (folder / "run.sh").write_bytes(b"false")
    assert len({plain, executable, pack(folder).id}) == 3


def test_version_control_and_caches_are_left_out(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"run.sh": b"true"})
    plain = pack(folder)
    folder_of(folder, {".git/config": b"x", "lib/__pycache__/a.pyc": b"x"})
    assert pack(folder) == plain


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda p: archive_of(p, (member("a.py"), b"")), "no run.sh at its top"),
        (lambda p: archive_of(p, (member("h/run.sh"), b"")), r"'h/run.sh': pack that folder"),
        (lambda p: archive_of(p, RUN, (member("a", tarfile.SYMTYPE, "/etc"), b"")), "'a'.*link"),
        (lambda p: archive_of(p, RUN, (member("a", tarfile.LNKTYPE, "run.sh"), b"")), "'a'.*link"),
        (lambda p: archive_of(p, RUN, (member("a", tarfile.CHRTYPE), b"")), "special file"),
        (lambda p: archive_of(p, RUN, (member("a", tarfile.FIFOTYPE), b"")), "special file"),
        (lambda p: archive_of(p, RUN, (member("../a"), b"")), "outside of it"),
        (lambda p: archive_of(p, RUN, (member("a/../../b"), b"")), "outside of it"),
        (lambda p: archive_of(p, RUN, (member("/a"), b"")), "outside of it"),
        (lambda p: archive_of(p, RUN, (member("a\nb"), b"")), "unprintable name"),
        (lambda p: archive_of(p, RUN, RUN), "twice"),
        (lambda p: archive_of(p, RUN, (member("a"), b""), (member("a/b"), b"")), "as a folder"),
    ],
)
def test_an_unsafe_archive_is_refused_with_the_reason(
    tmp_path: Path, build: Callable[[Path], Path], said: str
) -> None:
    with pytest.raises(BadCall, match=said):
        pack(build(tmp_path / "h.tar.gz"))


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08garbage"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "h.tar.gz").write_bytes(content)
    with pytest.raises(BadCall, match="tar -czf"):
        pack(tmp_path / "h.tar.gz")


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    whole = archive_of(tmp_path / "whole.tar.gz", RUN, (member("a"), os.urandom(4096)))
    (tmp_path / "h.tar.gz").write_bytes(whole.read_bytes()[:-2000])
    with pytest.raises(BadCall, match="tar -czf"):
        pack(tmp_path / "h.tar.gz")


def test_a_folder_with_a_link_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"run.sh": b"true"})
    (folder / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(BadCall, match=r"'passwd'.*link"):
        pack(folder)


def test_a_harness_outside_the_workspace_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path / "elsewhere", {"run.sh": b"true"})
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "h").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadCall, match="outside the workspace"):
        pack(tmp_path / "workspace" / "h", within=tmp_path / "workspace")


def test_a_missing_harness_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCall, match="no harness 'h'"):
        pack(tmp_path / "h", within=tmp_path)


def test_too_much_content_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = archive_of(tmp_path / "h.tar.gz", RUN, (member("a"), bytes(80 * 2**20)))
    assert bomb.stat().st_size < 2**20
    with pytest.raises(BadCall, match="50 MB"):
        pack(bomb)
    monkeypatch.setattr(harnesses, "MAX_FILES", 2)
    crowded = folder_of(tmp_path / "h", {"run.sh": b"", "a": b"", "b": b""})
    with pytest.raises(BadCall, match="too large"):
        pack(crowded)
