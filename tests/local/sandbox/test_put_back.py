"""What a sandbox started with, put back in a place where an agent has worked."""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rsigym.local.sandbox import Isolation, Limits, Sandbox
from rsigym.platform.errors import OperatorError
from tests.local.sandbox.support import on_loop, output
from tests.local.sandbox.users import by_both_users

BUILD = """
mkdir -p ~/.local/lib/closed ~/.local/__pycache__ ~/.cache
echo module > ~/.local/lib/module.py; echo code > ~/.local/__pycache__/module.pyc
ln -s module.py ~/.local/lib/link; chmod 500 ~/.local/lib/closed
echo shared > ~/.cache/shared; ln ~/.cache/shared ~/.local/lib/shared
echo rc > ~/.bashrc
"""
NAMES = [".bashrc", ".profile", ".local"]
LIST = "cd ~; find .local .bashrc .profile -printf '%p %y %m %l\\n' 2> /dev/null | sort"
DEEP = "import os\nfor _ in range(2500): os.mkdir('d'); os.chdir('d')"
"""A path of more than 4096 bytes."""
READ = "cd ~; cat .bashrc .local/lib/module.py .local/lib/shared .local/__pycache__/module.pyc"


@asynccontextmanager
async def built(
    folder: Path, isolation: Isolation, limits: Limits | None = None
) -> AsyncIterator[Sandbox]:
    """A sandbox that starts from what `BUILD` leaves."""
    start = folder / "start.tar"
    async with Sandbox(folder / "build", isolation=isolation) as sandbox:
        await output(sandbox, BUILD)
        await sandbox.save(start)
    async with Sandbox(
        folder / "trial", isolation=isolation, limits=limits, start_from=start
    ) as sandbox:
        yield sandbox


@on_loop
async def test_what_was_left_alone_stays_as_it_is(folder: Path, bubblewrap: Isolation):
    async with built(folder, bubblewrap) as sandbox:
        before = await output(sandbox, f"{LIST}; stat -c %i ~/.local/lib/module.py")
        await output(sandbox, "touch ~/work; echo work >> ~/.cache/own")
        assert await sandbox.put_back(NAMES) == []
        assert await output(sandbox, f"{LIST}; stat -c %i ~/.local/lib/module.py") == before
        assert await output(sandbox, "ls -A ~") == ".bashrc\n.cache\n.local\nwork"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("echo other > ~/.local/lib/module.py", "lib/module.py"),
        ("chmod 777 ~/.local/lib/module.py", "lib/module.py"),
        ("chmod 0 ~/.local/lib/module.py ~/.local/lib ~/.local ~", "lib/module.py"),
        ("rm ~/.local/lib/module.py; mkfifo ~/.local/lib/module.py", "lib/module.py"),
        ("rm ~/.local/lib/module.py; mkdir -p ~/.local/lib/module.py/x", "lib/module.py"),
        ("ln -sf /app/other ~/.local/lib/link", "lib/link"),
        ("rm ~/.local/lib/link; cp ~/.local/lib/module.py ~/.local/lib/link", "lib/link"),
        ("echo other > ~/.cache/shared", "lib/shared"),
        ("mkdir -p ~/.local/new/deep; chmod 0 ~/.local/new", "new"),
        (f"cd ~/.local; python3 -c {shlex.quote(DEEP)}", "d"),
        ("touch ~/.local/lib/$(printf '%255s' | tr ' ' x)", f"lib/{'x' * 255}"),
        ("touch ~/.local/lib/$'\\xff'", "lib/\udcff"),
        ("touch ~/.local/lib/closed/no || { chmod 700 ~/.local/lib/closed; "
         "touch ~/.local/lib/closed/new; }", "lib/closed/new"),
        ("rm -r ~/.local/lib/module.py", "lib/module.py"),
    ],
)  # fmt: skip
@on_loop
async def test_what_was_changed_is_as_it_was_and_told(
    folder: Path, bubblewrap: Isolation, change: str, told: str
):
    async with built(folder, bubblewrap) as sandbox:
        before = await output(sandbox, f"{LIST}; {READ}")
        await output(sandbox, change)
        assert await sandbox.put_back(NAMES) == [f"/home/user/.local/{told}"]
        assert await output(sandbox, f"{LIST}; {READ}") == before


@by_both_users
async def test_a_whole_folder_and_a_start_up_file_are_put_back(folder: Path):
    async with built(folder, "bubblewrap") as sandbox:
        before = await output(sandbox, f"{LIST}; {READ}")
        await output(sandbox, "mv ~/.local /app/moved; ln -s /app/moved ~/.local; cd ~")
        await output(sandbox, "echo evil > ~/.profile; echo evil > ~/.bashrc")
        told = await sandbox.put_back(NAMES)
        assert told[:3] == [f"/home/user/{name}" for name in NAMES]
        assert await output(sandbox, f"{LIST}; {READ}") == before
        assert await output(sandbox, "cat ~/put-away-*/0") == "evil"


@on_loop
async def test_caches_are_put_back_and_not_told(folder: Path, bubblewrap: Isolation):
    async with built(folder, bubblewrap) as sandbox:
        await output(sandbox, "cd ~/.local/__pycache__; echo evil > module.pyc; touch new.pyc")
        assert await sandbox.put_back(NAMES) == []
        assert await output(sandbox, "cd ~/.local/__pycache__; ls; cat *") == "module.pyc\ncode"


@on_loop
async def test_what_there_is_no_room_for_is_missing(folder: Path, bubblewrap: Isolation):
    async with built(folder, bubblewrap, Limits(disk_mb=4)) as sandbox:
        await output(sandbox, "echo evil > ~/.local/lib/module.py; rm ~/.local/lib/shared")
        await sandbox.exec("cat /dev/zero > /app/full")
        told = await sandbox.put_back(NAMES)
        assert told == [f"/home/user/.local/lib/{name}" for name in ("module.py", "shared")]
        assert await output(sandbox, "ls ~/.local/lib") == "closed\nlink"


@on_loop
async def test_without_first_files_there_is_nothing_to_put_back(
    folder: Path, bubblewrap: Isolation
):
    async with Sandbox(folder / "sandbox", isolation=bubblewrap) as sandbox:
        assert sandbox.began_empty
        with pytest.raises(OperatorError, match="without files"):
            await sandbox.put_back(NAMES)
