"""The life of the server process: started, reached, and never left behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from rsigym.local.tinker.process import TinkerServer, tinker_server
from rsigym.local.tinker.shared import shared_tinker_server
from rsigym.platform.errors import OperatorError
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]


@contextmanager
def script(source: str, *arguments: Path | str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs `source`; killed if it is still there at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "the script ended without a word"
    return line


def runs(pid: int) -> bool:
    """Whether a process is there, and not a zombie that its new parent has yet to collect."""
    try:
        os.kill(pid, 0)
        if not Path("/proc").exists():
            return True
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def healthy(server: TinkerServer) -> bool:
    answer = httpx.get(f"{server.url}/api/v1/healthz", headers={"x-api-key": server.api_key})
    return answer.status_code == 200


START = """
import os, sys, time
from pathlib import Path
from rsigym.local.tinker.shared import shared_tinker_server
server = shared_tinker_server({"tiny": Path(sys.argv[1])}, store=Path(sys.argv[2]))
print(server.pid, flush=True)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
def test_the_key_is_neither_on_the_command_line_nor_in_the_environment(
    server: TinkerServer,
) -> None:
    assert server.api_key.startswith("tml-")
    assert server.api_key not in repr(server)
    shown = "".join(Path(f"/proc/{server.pid}/{it}").read_text() for it in ("cmdline", "environ"))
    assert "rsigym.local.tinker" in shown
    assert server.api_key not in shown


def test_the_terminal_does_not_interrupt_the_server(server: TinkerServer) -> None:
    assert os.getpgid(server.pid) != os.getpgid(0)
    assert server.url.startswith("http://127.0.0.1:")


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="model folder"), tinker_server({"x": tmp_path}):
        pass
    (tmp_path / "config.json").write_text("{}")
    with (
        pytest.raises(OperatorError, match="no max_position_embeddings"),
        tinker_server({"x": tmp_path}, store=tmp_path / "store"),
    ):
        pass


def test_a_block_that_ends_ends_its_server(tiny_folder: Path, tmp_path: Path) -> None:
    with tinker_server({"tiny": tiny_folder}, store=tmp_path) as server:
        assert healthy(server)
    assert not server.alive()
    assert not runs(server.pid)


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "1 / 0"])
def test_the_shared_server_ends_with_the_interpreter(
    tiny_folder: Path, tmp_path: Path, ending: str
) -> None:
    with script(START + ending, tiny_folder, tmp_path) as process:
        pid = int(read_line(process))
        process.wait(60)
        eventually(lambda: not runs(pid), "the server outlived its parent")


def test_a_parent_that_is_killed_takes_the_server_with_it(
    tiny_folder: Path, tmp_path: Path
) -> None:
    # A forked process lives on and must not keep the server: it has copies of the pipes.
    forked = "if os.fork() == 0: time.sleep(300)\ntime.sleep(300)"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    source = f"import os; os.environ['TMPDIR'] = {str(temporary)!r}\n" + START + forked
    with script(source, tiny_folder, tmp_path / "store") as process:
        pid = int(read_line(process))
        assert runs(pid)
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: not runs(pid), "the server outlived its killed parent")
        eventually(lambda: not list(temporary.iterdir()), "unnamed weights were left behind")
        os.killpg(process.pid, signal.SIGKILL)


def test_one_server_is_shared_by_all_threads_and_replaced_when_it_dies(
    tiny_folder: Path, tmp_path: Path
) -> None:
    got: list[TinkerServer] = []

    def use() -> None:
        got.append(shared_tinker_server({"tiny": tiny_folder}, store=tmp_path))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 4
    assert len(set(map(id, got))) == 1
    os.kill(got[0].pid, signal.SIGKILL)
    eventually(lambda: not got[0].alive(), "SIGKILL did nothing")
    use()
    assert got[-1] is not got[0]
    assert healthy(got[-1])
    got[-1].close()


def test_a_forked_process_starts_its_own_and_leaves_the_parents_alone(
    tiny_folder: Path, tmp_path: Path
) -> None:
    forked = """
child = os.fork()
if child == 0:
    own = shared_tinker_server({"tiny": Path(sys.argv[1])}, store=Path(sys.argv[2]))
    server.close()
    print(own.pid != server.pid, flush=True)
    sys.exit()
os.waitpid(child, 0)
print(server.alive(), flush=True)
"""
    with script(START + forked, tiny_folder, tmp_path) as process:
        read_line(process)
        assert [read_line(process) for _ in range(2)] == ["True", "True"]


def test_serve_prints_how_to_reach_it_and_ends_on_ctrl_c(tiny_folder: Path, tmp_path: Path) -> None:
    source = """
import sys
from pathlib import Path
from rsigym.local.tinker.process import serve
serve({"tiny": Path(sys.argv[1])}, store=Path(sys.argv[2]))
"""
    with script(source, tiny_folder, tmp_path) as process:
        settings = dict(read_line(process).split("=", 1) for _ in range(2))
        url, key = settings["TINKER_BASE_URL"], settings["TINKER_API_KEY"]
        answer = httpx.get(f"{url}/api/v1/healthz", headers={"x-api-key": key})
        assert answer.json() == {"status": "ok"}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)
