"""RUN lines: what they leave is what trials start from; nothing half-done is kept."""

import asyncio
import io
import uuid
import zipfile
from pathlib import Path

import pytest

from rsigym.local.dockerfile import TaskImage, read_dockerfile
from rsigym.local.image_build import Builder, BuildFailure
from rsigym.local.sandbox import BASE, Isolation, Limits, Sandbox
from rsigym.platform.home import home
from tests.local.sandbox.support import appeared, on_loop, output
from tests.local.sandbox.world import PRIVATE, World, in_world


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds of the test's own."""
    monkeypatch.setenv("RSIGYM_HOME", str(tmp_path / "home"))


def image(folder: Path, lines: str) -> TaskImage:
    (folder / "Dockerfile").write_text(f"FROM base\n{lines}\n")
    return read_dockerfile(folder / "Dockerfile")


def builder(folder: Path, **more: object) -> Builder:
    return Builder(folder / "building", Limits(), **more)  # type: ignore[arg-type]


def left(folder: Path) -> list[str]:
    """The names of whole builds, and of sandboxes that are still there."""
    builds = [path.name for path in (home() / "builds").glob("*") if path.suffix != ".lock"]
    return builds + [path.name for path in (folder / "building").glob("*")]


@on_loop
async def test_what_a_command_leaves_is_there_when_a_trial_starts(
    folder: Path, bubblewrap: Isolation
):
    (folder / "in.txt").write_text("copied\n")
    asked = image(
        folder,
        "WORKDIR /app/made\nARG WORD=argument\nENV KIND=variable\nCOPY in.txt ./\n"
        "RUN cat in.txt > out.txt && echo $WORD $KIND >> out.txt && ln -s /etc/shadow link\n"
        "RUN mkdir -p ~/deep /tmp/x && chmod 500 ~/deep; sleep 300 &\n"
        "COPY in.txt later.txt",
    )
    start = await builder(folder).build(asked, BASE, 60)
    for name in ("a", "b"):
        async with Sandbox(folder / name, isolation=bubblewrap, start_from=start) as sandbox:
            assert await output(sandbox, "cat /app/made/out.txt") == "copied\nargument variable"
            assert await output(sandbox, "readlink /app/made/link") == "/etc/shadow"
            assert await output(sandbox, "stat -c %a ~/deep; ls /tmp") == "500\nx"
            assert (await sandbox.exec("ls /app/made/later.txt")).exit_code != 0
            await output(sandbox, "echo changed > /app/made/out.txt; touch ~/own")
            assert (await sandbox.exec("cat /app/made/link")).exit_code != 0


@on_loop
async def test_a_build_is_done_once_for_the_same_content(folder: Path, bubblewrap: Isolation):
    (folder / "in.txt").write_text("one")
    lines = "COPY in.txt /app/\nRUN cat /proc/sys/kernel/random/uuid > /app/id"
    build = builder(folder).build
    asked = image(folder, lines)
    first, *others = await asyncio.gather(*(build(asked, BASE, 60) for _ in range(6)))
    assert others == [first] * 5
    assert await build(image(folder, f"{lines}\nENV LATER=1"), BASE, 60) == first
    assert await build(image(folder, f"{lines} # other"), BASE, 60) != first
    (folder / "in.txt").write_text("two")
    assert await build(asked, BASE, 60) not in (None, first)
    assert len(left(folder)) == 3


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo doing; echo wrong >&2; exit 3", "exit status 3.*doing\nwrong"),
        ("apt-get install -y hello", "exit status 100.*no root"),
        ("touch /usr/bin/tool", "exit status 1.*Read-only file system"),
        ("exec 3<>/dev/tcp/127.0.0.1/80", "exit status 1.*refused"),
    ],
)
@on_loop
async def test_a_command_that_fails_is_the_tasks_failure_and_leaves_nothing(
    folder: Path, bubblewrap: Isolation, command: str, said: str
):
    with pytest.raises(BuildFailure, match=f"(?s){said}") as failed:
        await builder(folder).build(image(folder, f"RUN {command}"), BASE, 60)
    assert failed.value.side == "task"
    assert failed.value.details == {"file": "environment/Dockerfile", "line": 2}
    assert left(folder) == []


@on_loop
async def test_a_build_out_of_time_or_cancelled_leaves_nothing(folder: Path, bubblewrap: Isolation):
    mark = uuid.uuid4().hex
    slow = image(folder, f"RUN exec -a {mark} sleep 300")
    with pytest.raises(BuildFailure, match="build_timeout_sec"):
        await builder(folder).build(slow, BASE, 0.5)
    building = asyncio.create_task(builder(folder).build(slow, BASE, 60))
    waiting = asyncio.create_task(builder(folder).build(slow, BASE, 60))
    assert await appeared(mark)
    for task in (building, waiting):
        task.cancel()
    await asyncio.gather(building, waiting, return_exceptions=True)
    assert left(folder) == []


def wheel() -> bytes:
    """A package `small` with a module and a program."""
    made = io.BytesIO()
    info = "small-1.0.dist-info"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("small.py", "def main():\n    print('of the mirror')\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt", "[console_scripts]\nsmall = small:main\n")
        archive.writestr(f"{info}/RECORD", "")
    return made.getvalue()


@in_world
async def test_pip_installs_from_the_mirror_that_the_operator_names(
    folder: Path, bubblewrap: Isolation, world: World
):
    name = "small-1.0-py3-none-any.whl"
    world.content["/simple/small/"] = f'<a href="/{name}">{name}</a>'.encode()
    world.content[f"/{name}"] = wheel()
    mirror = builder(
        folder,
        mirrors=["mirror.test", PRIVATE],
        env={"PIP_INDEX_URL": "http://mirror.test/simple", "PIP_TRUSTED_HOST": "mirror.test"},
        resolve=world.resolve,
    )
    async with Sandbox(folder / "probe", isolation=bubblewrap) as sandbox:
        if (await sandbox.exec("python3 -m pip --version")).exit_code != 0:
            pytest.skip("the system's Python has no pip")
    start = await mirror.build(image(folder, "RUN pip install small"), BASE, 60)
    async with Sandbox(folder / "trial", isolation=bubblewrap, start_from=start) as sandbox:
        assert await output(sandbox, "python3 -c 'import small; small.main()'") == "of the mirror"
        assert await output(sandbox, "~/.local/bin/small") == "of the mirror"
    with pytest.raises(BuildFailure, match="403"):
        await mirror.build(image(folder, "RUN curl -fsS http://public.test/"), BASE, 60)
    assert {address for address, _, _ in world.reached} == {PRIVATE}
