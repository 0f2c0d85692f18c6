"""Many sandboxes, much output, and clients that go away: nothing is lost and nothing is stuck."""

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import e2b
import httpx
import pytest

from rsigym.local.e2b.process import E2BServer
from rsigym.local.sandbox.bubblewrap import find_bubblewrap
from tests.waiting import eventually

_MIB = 1 << 20


def test_48_sandboxes_work_at_once() -> None:
    async def one(number: int) -> None:
        made = await e2b.AsyncSandbox.create(timeout=300)
        try:
            await made.files.write("/tmp/number", str(number))
            for _ in range(4):
                result = await made.commands.run("cat /tmp/number; echo err >&2")
                assert (result.stdout, result.stderr) == (str(number), "err\n")
            assert await made.files.read("/tmp/number") == str(number)
            assert [it.name for it in await made.files.list("/tmp")] == ["number"]
        finally:
            assert await made.kill()

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, range(48)))

    asyncio.run(all_of_them())


def test_no_byte_of_50_mib_is_lost_and_a_slow_reader_slows_the_program() -> None:
    made = e2b.Sandbox.create(timeout=300)
    random = "openssl enc -aes-128-ctr -nosalt -pass pass:x < /dev/zero 2>/dev/null"
    command = f"{random} | base64 -w 0 | head -c {50 * _MIB}"
    made.commands.run(f"{command} > /tmp/expected")
    expected = made.commands.run("sha256sum < /tmp/expected").stdout.split()[0]
    seen = hashlib.sha256()
    result = made.commands.run(
        "cat /tmp/expected",
        on_stdout=lambda text: seen.update(text.encode()),
        timeout=120,
        retain_output=False,
    )
    assert result.exit_code == 0
    assert seen.hexdigest() == expected
    made.kill()


def test_a_client_that_breaks_off_leaves_the_program_and_the_others_alone(
    server: E2BServer,
) -> None:
    made = e2b.Sandbox.create(timeout=300)
    handle = made.commands.run(
        f"yes | head -c {20 * _MIB}; echo end > /tmp/end", background=True, timeout=0
    )
    watching = made.commands.connect(handle.pid, timeout=0)
    handle.disconnect()
    assert watching.wait().exit_code == 0
    assert made.files.read("/tmp/end") == "end\n"
    # One that stops reading, and is then cut off: the program waits for it, and then does not.
    handle = made.commands.run(f"yes | head -c {20 * _MIB}; echo end > /tmp/end2", background=True)
    handle.disconnect()
    eventually(lambda: made.files.exists("/tmp/end2"), "the program is stuck")
    made.kill()


def test_downloads_that_break_off_leave_no_descriptor_open(server: E2BServer) -> None:
    def descriptors() -> int:
        return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))

    made = e2b.Sandbox.create(timeout=300)
    made.files.write("/tmp/large", b"x" * (30 * _MIB))
    url = made.download_url("/tmp/large")

    def break_off(_: int) -> None:
        with httpx.stream("GET", url) as answer:
            next(answer.iter_raw(1000))

    before = descriptors()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(break_off, range(32)))
    eventually(lambda: descriptors() <= before + 2, "descriptors are left open")
    made.kill()


def test_a_full_disk_says_so_and_can_be_cleared() -> None:
    if not find_bubblewrap().own_disk:
        pytest.skip("sandboxes have no disk of their own on this machine")
    made = e2b.Sandbox.create(timeout=300)
    made.commands.run("fallocate -l 1000M /tmp/fill")
    with pytest.raises(e2b.NotEnoughSpaceException):
        made.files.write("/tmp/more", b"x" * (40 * _MIB))
    made.commands.run("rm /tmp/fill /tmp/more")
    made.files.write("/tmp/more", b"x" * (40 * _MIB))
    made.kill()
