"""Files in and out of a sandbox."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation, Limits, choose_isolation, files
from rsigym.platform.errors import ServiceFailure
from tests.local.sandbox.support import on_loop, opened, output


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@on_loop
async def test_a_file_keeps_its_content_and_its_execute_bit(tmp_path: Path, isolation: Isolation):
    content = os.urandom(3_000_000)
    (tmp_path / "in").write_bytes(content)
    os.chmod(tmp_path / "in", 0o755)
    async with opened(tmp_path, isolation) as sandbox:
        await sandbox.upload(tmp_path / "in", "/tests/new/folder/program")
        assert await output(sandbox, "stat -c %A /tests/new/folder/program") == "-rwxr-xr-x"
        await sandbox.download("/tests/new/folder/program", tmp_path / "deep" / "out")
    assert (tmp_path / "deep" / "out").read_bytes() == content


@on_loop
async def test_a_folders_content_goes_into_the_target(tmp_path: Path, isolation: Isolation):
    source = tmp_path / "in"
    (source / "empty").mkdir(parents=True)
    for number in range(300):
        (source / f"file {number}").write_text(str(number))
    (source / "odd\nname\udcff").write_bytes(b"odd")
    async with opened(tmp_path, isolation) as sandbox:
        await sandbox.exec("mkdir -p /app/t; echo there > /app/t/before")
        await sandbox.upload(source, "/app/t")
        assert await output(sandbox, "cat /app/t/before") == "there"
        assert await sandbox.download("/app/t", tmp_path / "out") == []
    expected = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    found = {
        path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()
    }
    assert found == expected | {"before": b"there\n"}
    assert (tmp_path / "out" / "empty").is_dir()


@on_loop
async def test_uploads_replace_what_was_planted_in_their_place(
    tmp_path: Path, isolation: Isolation
):
    source = tmp_path / "in"
    (source / "sub").mkdir(parents=True)
    (source / "test.sh").write_text("echo honest")
    (source / "sub" / "data").write_text("honest")
    plant = """
        echo precious > /app/precious; mkdir /app/elsewhere
        ln -s /app/precious /tests/test.sh; ln -s /app/elsewhere /tests/sub
    """
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, plant)
        await sandbox.upload(source, "/tests")
        assert await output(sandbox, "bash /tests/test.sh; cat /tests/sub/data") == "honest\nhonest"
        assert await output(sandbox, "cat /app/precious; ls /app/elsewhere") == "precious"


@on_loop
async def test_an_upload_over_a_pipe_does_not_wait(tmp_path: Path, isolation: Isolation):
    (tmp_path / "in").write_text("content")
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "mkfifo /app/pipe")
        await sandbox.upload(tmp_path / "in", "/app/pipe")
        assert await output(sandbox, "cat /app/pipe") == "content"


@on_loop
async def test_links_and_special_files_are_left_out(tmp_path: Path, isolation: Isolation):
    (tmp_path / "secret").write_text("of the host")
    plant = f"""
        cd /logs/agent; echo fine > fine; mkdir sub; echo deep > sub/deep; chmod 755 .
        ln -s {tmp_path}/secret absolute; ln -s ../../../../../../etc relative; ln -s / sub/root
        mkfifo pipe; ln -s loop loop; ln -s fine inside
        python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
    """
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, plant)
        left_out = await sandbox.download("/logs/agent", tmp_path / "out")
    files = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*")}
    assert files == {"fine", "sub", "sub/deep"}
    assert set(left_out) == {"absolute", "relative", "sub/root", "pipe", "loop", "inside", "sock"}


@on_loop
async def test_links_of_the_host_are_left_out_of_an_upload(tmp_path: Path, isolation: Isolation):
    (tmp_path / "secret").write_text("of the host")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "fine").write_text("fine")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    async with opened(tmp_path, isolation) as sandbox:
        await sandbox.upload(tmp_path / "in", "/app")
        assert await output(sandbox, "ls /app") == "fine"


@on_loop
@pytest.mark.parametrize("plant", ["ln -s /etc/passwd x", "mkfifo x"])
async def test_what_is_no_file_cannot_be_downloaded(
    tmp_path: Path, isolation: Isolation, plant: str
):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, plant)
        with pytest.raises(OSError, match=r"link|regular"):
            await sandbox.download("/app/x", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@on_loop
async def test_missing_sources_and_forbidden_targets_are_os_errors(
    tmp_path: Path, isolation: Isolation
):
    (tmp_path / "in").write_text("content")
    async with opened(tmp_path, isolation) as sandbox:
        with pytest.raises(FileNotFoundError):
            await sandbox.download("/app/none", tmp_path / "out")
        with pytest.raises(FileNotFoundError):
            await sandbox.upload(tmp_path / "none", "/app/none")
        with pytest.raises(OSError, match=r"[Rr]ead-only|leads out"):
            await sandbox.upload(tmp_path / "in", "/usr/bin/new")
        await output(sandbox, "mkdir /app/folder")
        with pytest.raises(IsADirectoryError):
            await sandbox.upload(tmp_path / "in", "/app/folder")
        assert await output(sandbox, "echo works") == "works"


@on_loop
async def test_a_link_does_not_lead_a_transfer_out(tmp_path: Path, isolation: Isolation):
    (tmp_path / "in").write_text("from the host")
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    os.chmod(outside, 0o777)
    (outside / "secret").write_text("of the host")
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, f"ln -s {outside} /app/link")
        with suppress(OSError):  # refused, or a folder of the sandbox's own of that name
            await sandbox.upload(tmp_path / "in", "/app/link/new")
        with pytest.raises(OSError, match=r"leads out|No such file"):
            await sandbox.download("/app/link/secret", tmp_path / "out")
    assert os.listdir(outside) == ["secret"]


@on_loop
async def test_downloads_are_bounded_in_bytes(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation, Limits(download_mb=1, file_mb=None)) as sandbox:
        await output(sandbox, "truncate -s 1T a-huge; head -c 600000 /dev/zero | tee b > c")
        assert await sandbox.download("/app", tmp_path / "out") == ["a-huge", "c"]
        with pytest.raises(OSError, match="too large"):
            await sandbox.download("/app/a-huge", tmp_path / "file")
    assert os.listdir(tmp_path / "out") == ["b"]


@on_loop
async def test_downloads_are_bounded_in_number(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation, Limits(download_files=100)) as sandbox:
        await output(sandbox, "touch file{1..500}")
        assert await sandbox.download("/app", tmp_path / "out")
    assert 90 <= len(os.listdir(tmp_path / "out")) <= 100


@on_loop
async def test_downloads_are_bounded_in_depth(tmp_path: Path, isolation: Isolation):
    dig = "import os\nfor _ in range(1200): os.mkdir('deeper'); os.chdir('deeper')"
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, f'python3 -c "{dig}"')
        await output(sandbox, "echo fine > /app/fine")
        assert await sandbox.download("/app", tmp_path / "out")
    found = [path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*")]
    assert Path("fine") in found
    assert max(len(path.parts) for path in found) == 64


@on_loop
async def test_a_setuid_bit_does_not_come_out(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "touch program; chmod 6777 program")
        await sandbox.download("/app/program", tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o777


@on_loop
async def test_thousands_of_files_come_out(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "mkdir many; cd many; touch f{1..3000}")
        assert await sandbox.download("/app/many", tmp_path / "out") == []
    assert len(os.listdir(tmp_path / "out")) == 3000


@on_loop
async def test_a_transfer_from_an_ended_sandbox_fails(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await sandbox.close()
        with pytest.raises(ServiceFailure, match="ended"):
            await sandbox.download("/app", tmp_path / "out")


_STOPPER = """
mapfile -d '' first < /proc/1/cmdline
echo ready
while true; do for entry in /proc/[0-9]*; do
    mapfile -d '' words < $entry/cmdline
    [ "${entry#/proc/}" != 1 ] && [ "${words[*]}" = "${first[*]}" ] && kill -STOP "${entry#/proc/}"
done; done 2> /dev/null
"""


@on_loop
async def test_a_transfer_that_is_stopped_inside_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if choose_isolation("auto") == "process":
        pytest.skip("needs user namespaces")
    monkeypatch.setattr(files, "STALL_S", 1.0)
    async with opened(tmp_path, "bubblewrap") as sandbox:
        await output(sandbox, "head -c 100000000 /dev/zero > /tmp/large")
        stopper = await sandbox.spawn(_STOPPER)
        assert await stopper.read() is not None

        async def download() -> None:
            for _ in range(100):  # one may be through before it is seen
                await sandbox.download("/tmp", tmp_path / "out")

        with pytest.raises(ServiceFailure, match="was stopped"):
            await download()
        await stopper.kill()
        await sandbox.kill_all()
        await sandbox.download("/tmp/large", tmp_path / "large")
