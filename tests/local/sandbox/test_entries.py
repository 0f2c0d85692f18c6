"""Looking at, changing and opening files in a sandbox, from outside."""

import errno
import os
import uuid
from pathlib import Path
from typing import Literal

import pytest

from rsigym.local.sandbox import Entry, Isolation, Sandbox
from tests.local.sandbox.support import appeared, on_loop, opened, output


async def read(sandbox: Sandbox, path: str) -> bytes:
    with os.fdopen(await sandbox.open(path, "r"), "rb") as file:
        return file.read()


async def write(sandbox: Sandbox, path: str, content: bytes) -> None:
    with os.fdopen(await sandbox.open(path, "w"), "wb") as file:
        file.write(content)


@on_loop
async def test_an_entry_is_told_in_full(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "echo hello > file; chmod 640 file; touch -d @1000.5 file")
        user, group = (await output(sandbox, "stat -c '%U %G' file")).split()
        assert await sandbox.stat("/app/file") == Entry(
            "file", sandbox.path("/app/file"), "file", 6, 0o640, 1000.5, user, group, None
        )
        assert (await sandbox.stat("/app")).type == "dir"
        assert (await sandbox.stat("file")).name == "file"


@on_loop
async def test_a_link_is_told_with_its_target(tmp_path: Path, isolation: Isolation):
    plant = "mkdir d; echo > d/f; ln -s d/f one; ln -s one two; ln -s none lost; ln -s loop loop"
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, plant)
        for name, target in (("two", "d/f"), ("lost", "none"), ("loop", "loop")):
            entry = await sandbox.stat(name)
            assert (entry.type, entry.target) == ("symlink", sandbox.path(f"/app/{target}"))


@on_loop
async def test_a_list_goes_as_deep_as_is_asked(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "mkdir -p a/b/c; touch a/b/c/deep a/x top; mkfifo p; ln -s a link")

        async def names(path: str, depth: int = 1) -> list[str]:
            base = sandbox.path("/app") + "/"
            return [entry.path.removeprefix(base) for entry in await sandbox.list(path, depth)]

        assert await names("/app") == ["a", "link", "p", "top"]
        assert await names("a", 2) == ["a/b", "a/b/c", "a/x"]
        assert await names("a", 9) == ["a/b", "a/b/c", "a/b/c/deep", "a/x"]
        assert await names("link") == ["link/b", "link/x"]
        assert {entry.name: entry.type for entry in await sandbox.list("/app")} == {
            "a": "dir",
            "link": "symlink",
            "p": "other",
            "top": "file",
        }


@on_loop
async def test_a_list_too_long_says_so_and_the_sandbox_goes_on(
    tmp_path: Path, isolation: Isolation
):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "mkdir many; cd many; seq 10000 | xargs touch")
        assert len(await sandbox.list("many")) == 10_000
        await output(sandbox, "touch many/last")
        with pytest.raises(OSError, match="10000 entries") as raised:
            await sandbox.list("many")
        assert raised.value.errno == errno.EFBIG
        name = "n" * 200
        dig = f"import os\nfor _ in range(300): os.mkdir('{name}'); os.chdir('{name}')"
        await output(sandbox, f'mkdir deep; cd deep; python3 -c "{dig}"')
        assert len(await sandbox.list("deep", 1000)) < 25


@on_loop
async def test_folders_are_made_with_their_parents(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        assert await sandbox.make_dir("/app/a/b/c")
        assert not await sandbox.make_dir("/app/a/b/c")
        await output(sandbox, "touch file; test -d a/b/c; ln -s a/b link")
        assert not await sandbox.make_dir("/app/link")
        for path in ("file", "file/below"):
            with pytest.raises(NotADirectoryError):
                await sandbox.make_dir(path)


@on_loop
async def test_files_and_folders_move(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "mkdir d; echo 1 > d/f; echo 2 > g; ln -s g l; mkfifo d/p")
        await sandbox.move("d", "/app/new/place")
        await sandbox.move("l", "/tmp/elsewhere/l")
        await sandbox.move("/app/new/place", "/tmp/d")
        assert await output(sandbox, f"cat {sandbox.path('/tmp/d/f')}") == "1"
        assert (await sandbox.stat("/tmp/elsewhere/l")).type == "symlink"
        assert (await sandbox.stat("/tmp/d/p")).type == "other"
        await sandbox.move("g", "/tmp/d/f")
        assert await read(sandbox, "/tmp/d/f") == b"2\n"
        assert [entry.name for entry in await sandbox.list("/app")] == ["new"]
        with pytest.raises(FileNotFoundError):
            await sandbox.move("none", "/app/some/place")
        with pytest.raises(OSError, match=r"directory"):
            await sandbox.move("/tmp/d/f", "/app/new")
        assert [entry.name for entry in await sandbox.list("/app")] == ["new"]


@on_loop
async def test_removing_takes_all_below_and_follows_no_link(tmp_path: Path, isolation: Isolation):
    dig = "import os\nfor _ in range(700): os.mkdir('deeper'); os.chdir('deeper')"
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, f'mkdir keep d; touch keep/f; ln -s ../keep d/l; python3 -c "{dig}"')
        await output(sandbox, "mv deeper d; ln -s keep link; mkfifo p")
        for path in ("d", "link", "p"):
            await sandbox.remove(path)
        assert await output(sandbox, "ls; ls keep") == "keep\nf"
        with pytest.raises(FileNotFoundError):
            await sandbox.remove("d")


@on_loop
async def test_what_is_opened_is_the_file_itself(tmp_path: Path, isolation: Isolation):
    content = os.urandom(3_000_000)
    async with opened(tmp_path, isolation) as sandbox:
        await write(sandbox, "/app/new/folder/file", content)
        assert await read(sandbox, "/app/new/folder/file") == content
        await output(sandbox, "test -O new/folder/file; chmod 755 new/folder/file")
        await output(sandbox, "ln new/folder/file hard; ln -s new/folder/file soft; ln -s n/m lost")
        await write(sandbox, "soft", b"short")
        assert await output(sandbox, "cat hard; stat -c %a hard") == "short755"
        await write(sandbox, "lost", b"found")
        assert await output(sandbox, "cat n/m") == "found"
        fd = await sandbox.open("hard", "r")
        assert not os.get_inheritable(fd)
        with pytest.raises(OSError, match="Bad file"):
            os.write(fd, b"x")
        os.close(fd)


@on_loop
@pytest.mark.parametrize("mode", ["r", "w"])
async def test_only_regular_files_are_opened(
    tmp_path: Path, isolation: Isolation, mode: Literal["r", "w"]
):
    plant = (
        "mkdir d; mkfifo p; ln -s p link; ln -s loop loop; ln -s /dev/zero z; "
        "ln -s /dev/pts/ptmx t; "
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\""
    )
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, plant)
        for path in ("p", "link", "s", "z", "t", "/dev/null"):
            with pytest.raises(PermissionError):
                await sandbox.open(path, mode)
        with pytest.raises(IsADirectoryError):
            await sandbox.open("d", mode)
        with pytest.raises(OSError, match="symbolic links"):
            await sandbox.open("loop", mode)
        assert await output(sandbox, "echo works") == "works"


@on_loop
async def test_the_supervisors_own_files_are_not_opened(tmp_path: Path, isolation: Isolation):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "ln -s /proc/self/mem mem; ln -s /proc/self proc")
        for path in ("mem", "proc/environ", "/proc/self/mem"):
            for mode in ("r", "w"):
                with pytest.raises(OSError, match=r"regular|leads out|Read-only|denied"):
                    os.close(await sandbox.open(path, mode))


@on_loop
async def test_no_path_leads_to_the_host(folder: Path, isolation: Isolation):
    outside = folder / "outside"
    outside.mkdir()
    os.chmod(outside, 0o777)
    (outside / "secret").write_text("of the host")
    async with opened(folder, isolation) as sandbox:
        await output(sandbox, f"ln -s {outside} link; ln -s {outside}/secret file; touch own")
        attempts = [
            lambda: sandbox.open("link/secret", "r"),
            lambda: sandbox.open("file", "r"),
            lambda: sandbox.open(f"/app/../../../../{outside}/secret", "r"),
            lambda: sandbox.list("link"),
            lambda: sandbox.stat("link/secret"),
            lambda: sandbox.remove("link/secret"),
            lambda: sandbox.move("link/secret", "stolen"),
            lambda: sandbox.watch("link"),
        ]
        for attempt in attempts:
            with pytest.raises(OSError, match=r"leads out|No such file"):
                await attempt()
        if isolation == "process":
            for attempt in (
                lambda: sandbox.open("link/new", "w"),
                lambda: sandbox.make_dir("link/new"),
                lambda: sandbox.move("own", "link/own"),
            ):
                with pytest.raises(PermissionError, match="leads out"):
                    await attempt()
    assert os.listdir(outside) == ["secret"]


@on_loop
async def test_what_is_missing_or_no_path_is_the_systems_error(
    tmp_path: Path, isolation: Isolation
):
    async with opened(tmp_path, isolation) as sandbox:
        await output(sandbox, "touch file")
        for attempt in (sandbox.stat, sandbox.list, sandbox.remove, sandbox.watch):
            with pytest.raises(FileNotFoundError):
                await attempt("/app/none")
            with pytest.raises(OSError, match="null"):
                await attempt("/app/nu\0ll")
        with pytest.raises(FileNotFoundError):
            await sandbox.open("none", "r")
        with pytest.raises(NotADirectoryError):
            await sandbox.list("file")
        with pytest.raises(OSError, match="too long"):
            await sandbox.stat("x" * 300)
        assert await output(sandbox, "echo works") == "works"


@on_loop
async def test_names_that_are_no_text_are_kept(tmp_path: Path, isolation: Isolation):
    name = os.fsdecode(b"odd \n \xff \xc3\xbc")
    async with opened(tmp_path, isolation) as sandbox:
        await write(sandbox, name, b"odd")
        assert [entry.name for entry in await sandbox.list("/app")] == [name]
        assert await read(sandbox, name) == b"odd"
        await sandbox.remove(name)
        assert await sandbox.list("/app") == []


@on_loop
async def test_usage_counts_what_runs_and_what_is_kept(tmp_path: Path, isolation: Isolation):
    mark = f"70.{uuid.uuid4().int % 10**9}"
    async with opened(tmp_path, isolation) as sandbox:
        before = await sandbox.usage()
        assert before.processes == 0
        assert before.memory_bytes > 0
        busy = "import time\nwhile time.process_time() < 0.3: pass"
        await output(sandbox, f'python3 -c "{busy}"; head -c 5000000 /dev/zero > big; ln big same')
        running = await sandbox.spawn(f"sleep {mark} & sleep {mark}")
        assert await appeared(mark, 2)
        after = await sandbox.usage()
        assert after.processes == 3
        assert after.cpu_s - before.cpu_s >= 0.25
        assert 5_000_000 <= after.disk_bytes - before.disk_bytes < 6_000_000
        await running.kill()
        assert (await sandbox.usage()).processes == 0
