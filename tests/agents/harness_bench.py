"""Harnesses as programs, against an endpoint that speaks OpenAI's chat completions on the
loopback."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override

from harbor.models.trajectories import Trajectory

__all__ = ["HARNESSES", "MINIMAL", "SYSTEM", "Ended", "Endpoint", "run"]

HARNESSES = Path(__file__).parents[2] / "agents" / "harness"
MINIMAL = HARNESSES / "minimal"
SYSTEM = (MINIMAL / "system.txt").read_text().strip()


@dataclass
class Endpoint:
    """An endpoint that gives these replies in turn, the last one again and again, and keeps what
    it was asked."""

    replies: list[str]
    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    given: int = 0

    @contextmanager
    def served(self) -> Iterator[str]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/chat/completions"
                assert self.headers["Authorization"] == "Bearer local"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.append(json.loads(body))
                answer = json.dumps(endpoint.answer(endpoint.asked[-1].get("n", 1))).encode()
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

    def answer(self, n: int) -> dict[str, Any]:
        if self.status != 200:
            return {"error": {"message": "the prompt is too long"}}
        return {"choices": [{"message": self._next()} for _ in range(n)]}

    def _next(self) -> dict[str, str]:
        self.given += 1
        reply = self.replies[min(self.given, len(self.replies)) - 1]
        return {"role": "assistant", "content": reply}


@dataclass(frozen=True)
class Ended:
    """What a harness left: `answer` is answer.txt, `work` its working directory."""

    status: int
    stdout: str
    stderr: str
    work: Path
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


def run(
    harness: Path,
    endpoint: Endpoint,
    folder: Path,
    instruction: str = "Say it.\n",
    files: Mapping[str, str] | None = None,
) -> Ended:
    """Run a harness on an instruction, in a folder that holds some files."""
    work = folder / "app"
    work.mkdir()
    for name, text in (files or {}).items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
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
        done.stdout,
        done.stderr,
        work,
        answer.read_text() if answer.exists() else None,
        Trajectory.model_validate_json((folder / "trajectory.json").read_text()),
    )
