"""Run by a Python that finds an older SDK: what its users do most, sync and async."""

import asyncio
import sys
from importlib.metadata import version

import e2b


def main() -> None:
    assert version("e2b") == sys.argv[1], version("e2b")
    synchronous()
    asyncio.run(asynchronous())
    print("all is well")


def synchronous() -> None:
    with e2b.Sandbox.create(timeout=60, metadata={"a": "b"}, envs={"X": "y"}) as made:
        seen: list[str] = []
        assert made.commands.run("echo $X", on_stdout=seen.append).stdout == "y\n"
        assert seen == ["y\n"]
        made.files.write("folder/file", "content")
        made.files.write_files([{"path": "/tmp/a", "data": b"1"}, {"path": "/tmp/b", "data": "2"}])
        assert made.files.read("folder/file") == "content"
        assert made.files.read("/tmp/a", format="bytes") == b"1"
        assert [it.name for it in made.files.list("folder")] == ["file"]
        assert made.files.rename("folder/file", "folder/other").path == "/home/user/folder/other"
        handle = made.commands.run("cat", background=True, stdin=True)
        made.commands.send_stdin(handle.pid, "hello\n")
        assert [it.pid for it in made.commands.list()] == [handle.pid]
        assert made.commands.kill(handle.pid)
        terminal = made.pty.create(e2b.PtySize(rows=24, cols=80))
        assert made.pty.kill(terminal.pid)
        watch = made.files.watch_dir("folder")
        made.files.remove("folder/other")
        while not watch.get_new_events():
            pass
        query = e2b.SandboxQuery(metadata={"a": "b"})
        assert made.sandbox_id in {it.sandbox_id for it in e2b.Sandbox.list(query).next_items()}
        again = e2b.Sandbox.connect(made.sandbox_id, timeout=100)
        assert again.is_running()
        made.set_timeout(200)
        try:
            made.commands.run("exit 3")
            raise AssertionError("a command that fails does not raise")
        except e2b.CommandExitException:
            pass
    assert not made.is_running()


async def asynchronous() -> None:
    made = await e2b.AsyncSandbox.create(timeout=60)
    results = await asyncio.gather(*(made.commands.run(f"echo {i}") for i in range(10)))
    assert [it.stdout for it in results] == [f"{i}\n" for i in range(10)]
    await made.files.write("file", b"\x00\xff")
    assert await made.files.read("file", format="bytes") == b"\x00\xff"
    assert await made.kill()


main()
