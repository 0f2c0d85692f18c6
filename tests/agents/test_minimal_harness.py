"""The starting harness and the scripted agent's own, as programs, against an endpoint that speaks
OpenAI's chat completions on the loopback."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override

import pytest
from harbor.models.trajectories import Trajectory

HARNESSES = Path(__file__).parents[2] / "agents" / "harness"
MINIMAL = HARNESSES / "minimal"
SYSTEM = (MINIMAL / "system.txt").read_text().strip()


@dataclass
class Endpoint:
    """An endpoint that gives these replies in turn, and keeps what it was asked."""

    replies: list[str]
    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @contextmanager
    def served(self) -> Iterator[str]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/chat/completions"
                assert self.headers["Authorization"] == "Bearer local"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.append(json.loads(body))
                answer = json.dumps(endpoint.answer()).encode()
                self.send_response(endpoint.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            @override
            def log_message(self, format: str, *args: Any) -> None: ...

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}/v1"
            server.shutdown()

    def answer(self) -> dict[str, Any]:
        if self.status != 200:
            return {"error": {"message": "the prompt is too long"}}
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        return {"choices": [{"message": {"role": "assistant", "content": reply}}]}


@dataclass(frozen=True)
class Ended:
    """What a harness left."""

    status: int
    stderr: str
    answer: str | None
    trajectory: Trajectory


def installed(harness: Path, folder: Path) -> Path:
    """A copy of the harness whose trajectory is written below `folder`, as no sandbox is here."""
    copy = folder / "harness"
    shutil.copytree(MINIMAL, copy)
    shutil.copytree(harness, copy, dirs_exist_ok=True)
    program = copy / "model.py"
    program.write_text(program.read_text().replace("/logs/agent/", f"{folder}/"))
    return copy


def run(harness: Path, endpoint: Endpoint, folder: Path, instruction: str = "Say it.\n") -> Ended:
    work = folder / "app"
    work.mkdir()
    with endpoint.served() as base:
        done = subprocess.run(
            ["bash", str(installed(harness, folder) / "run.sh")],
            input=instruction,
            cwd=work,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "OPENAI_API_BASE": base,
                "OPENAI_API_KEY": "local",
                "OPENAI_MODEL": "some/model",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    answer = work / "answer.txt"
    return Ended(
        done.returncode,
        done.stderr,
        answer.read_text() if answer.exists() else None,
        Trajectory.model_validate_json((folder / "trajectory.json").read_text()),
    )


def test_a_reply_without_commands_is_the_answer(tmp_path: Path):
    endpoint = Endpoint(["It is 42."])
    ended = run(MINIMAL, endpoint, tmp_path, "What is 6 * 7?\n")
    assert (ended.status, ended.answer) == (0, "It is 42.")
    (request,) = endpoint.asked
    assert request["model"] == "some/model"
    assert request["temperature"] == 0
    assert request["messages"] == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "What is 6 * 7?"},
    ]
    said = [(step.source, step.message) for step in ended.trajectory.steps]
    assert said == [("system", SYSTEM), ("user", "What is 6 * 7?"), ("agent", "It is 42.")]


def test_commands_are_run_and_their_output_shown(tmp_path: Path):
    endpoint = Endpoint(["Look:\n```sh\necho out; echo err >&2; exit 3\n```", "done"])
    ended = run(MINIMAL, endpoint, tmp_path)
    assert ended.answer == "done"
    assert endpoint.asked[1]["messages"][2:] == [
        {"role": "assistant", "content": endpoint.replies[0]},
        {"role": "user", "content": "Output:\nout\nerr\n\nexit status 3"},
    ]
    observation = ended.trajectory.steps[2].observation
    assert observation is not None
    assert observation.results[0].content == "out\nerr\n\nexit status 3"


def test_an_answer_that_the_model_wrote_itself_stays(tmp_path: Path):
    endpoint = Endpoint(["```sh\necho 42 > answer.txt\n```", "I wrote it."])
    assert run(MINIMAL, endpoint, tmp_path).answer == "42\n"


def test_a_model_that_never_stops_is_asked_a_few_times_only(tmp_path: Path):
    endpoint = Endpoint(["```sh\ntrue\n```"])
    ended = run(MINIMAL, endpoint, tmp_path)
    assert ended.status == 0
    assert len(endpoint.asked) == 3
    assert len(ended.trajectory.steps) == 5


def test_an_endpoint_that_refuses_ends_the_harness_with_its_words(tmp_path: Path):
    ended = run(MINIMAL, Endpoint([], status=400), tmp_path)
    assert ended.status != 0
    assert ended.answer is None
    assert "the model answered 400" in ended.stderr
    assert "the prompt is too long" in ended.stderr
    assert [step.source for step in ended.trajectory.steps] == ["system", "user"]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("12*7+3 = 80", "87"),
        ("20/5", "4"),
        ("6 x 5 = 31", "30"),
        ("40+2\n#### 1", "42"),
        ("3*(2+1)", "9"),
    ],
)
def test_the_calculator_calculates_what_it_is_told(tmp_path: Path, reply: str, answer: str):
    endpoint = Endpoint([reply])
    assert run(HARNESSES / "calculator", endpoint, tmp_path).answer == answer
    assert endpoint.asked[0]["messages"][0] == {"role": "system", "content": SYSTEM}
    assert len(endpoint.asked) == 1


def test_the_calculator_shows_examples_to_a_model_that_does_not_calculate(tmp_path: Path):
    endpoint = Endpoint(["The answer is 5.", "2+5"])
    ended = run(HARNESSES / "calculator", endpoint, tmp_path, "Say it.\n\nWhat is 2 + 5?\n")
    assert ended.answer == "7"
    assert len(endpoint.asked[1]["messages"]) > 4
    assert endpoint.asked[1]["messages"][-1] == {"role": "user", "content": "What is 2 + 5?"}


@pytest.mark.parametrize(
    "reply", ["", "42", "7/2", "1/0", "2**9999999999", "((((", "__import__('os')", "9" * 5000]
)
def test_the_calculator_falls_back_to_the_reply(tmp_path: Path, reply: str):
    ended = run(HARNESSES / "calculator", Endpoint([reply]), tmp_path)
    assert (ended.status, ended.answer) == (0, reply)
