"""What a path inside means where the sandbox has no file system of its own."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.local.sandbox import Sandbox
from rsigym.local.sandbox.layout import FOLDERS, Layout
from tests.local.sandbox.support import on_loop, opened, output

ROOT = "/tmp/rsi/box"
MAPPED = Layout(Path(ROOT), mapped=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo 1 > /logs/verifier/reward.txt", f"echo 1 > {ROOT}/logs/verifier/reward.txt"),
        ("cd /app&&ls", f"cd {ROOT}/app&&ls"),
        ("open('/app/x')", f"open('{ROOT}/app/x')"),
        ("P=/app/bin:/tests", f"P={ROOT}/app/bin:{ROOT}/tests"),
        ("put it into /app.", f"put it into {ROOT}/app."),
        ("rm -rf /tmp/*", f"rm -rf {ROOT}/tmp/*"),
        ("/home/user", f"{ROOT}/home/user"),
        ("/application /app.py /app-2 /home/users", None),
        ("/usr/app ./app ~/app $X/app ${X}/app $(pwd)/app */app", None),
        ("http://app/x file:///app s/tmp/x/", None),
        (f"{ROOT}/app/x {ROOT}/tmp", None),
    ],
)
def test_paths_that_are_written_out_are_put_right(text: str, expected: str | None):
    assert MAPPED.rewrite(text) == (text if expected is None else expected)


PIECES = ["/", " ", "app", "logs", "tmp", "x", ".", ROOT, "'", "=", "home/user"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_rewriting_twice_is_rewriting_once(text: str):
    once = MAPPED.rewrite(text)
    assert MAPPED.rewrite(once) == once


@given(st.sampled_from(FOLDERS), st.lists(st.sampled_from(["a", "..", ".", "b c"])))
def test_a_path_is_below_the_folder_or_as_it_is(name: str, parts: list[str]):
    inside = "/".join(["", name, *parts])
    path = MAPPED.path(inside)
    assert ".." not in path.split("/")
    assert Layout(Path(ROOT), mapped=False).path(inside) in (path, path.removeprefix(ROOT))


def test_relative_paths_start_in_app():
    assert MAPPED.path("x/y") == f"{ROOT}/app/x/y"
    assert Layout(Path(ROOT), mapped=False).path("x") == "/app/x"


@on_loop
async def test_a_tasks_verifier_works_without_a_file_system_of_its_own(tmp_path: Path):
    source = tmp_path / "tests"
    source.mkdir()
    (source / "test.sh").write_text("python3 /tests/check.py > /logs/verifier/reward.txt\n")
    (source / "check.py").write_text("print(int(open('/app/answer.txt').read() == '42\\n'))\n")
    (source / "data.json").write_text('{"path": "/app/answer.txt"}')
    async with opened(tmp_path, "process") as sandbox:
        await output(sandbox, "echo 42 > /app/answer.txt")
        await sandbox.upload(source, "/tests")
        await output(sandbox, "bash /tests/test.sh")
        await sandbox.download("/logs/verifier/reward.txt", tmp_path / "reward.txt")
        assert (tmp_path / "reward.txt").read_text() == "1\n"
        assert await output(sandbox, "cat /tests/data.json") == '{"path": "/app/answer.txt"}'
        assert await output(sandbox, "cat $RSIGYM_SANDBOX_ROOT/app/answer.txt") == "42"


def test_a_text_is_left_alone_where_the_folders_exist(tmp_path: Path):
    assert Sandbox(tmp_path / "x", isolation="bubblewrap").rewrite("ls /app") == "ls /app"
