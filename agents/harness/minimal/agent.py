"""A minimal harness: the model may run shell commands; its last reply is the answer.

An instruction that begins "Answer with …, in report.txt." says which file the answer belongs in.
Where none is named it is answer.txt, and a code block without a language is taken for commands.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from model import Trajectory, complete

SYSTEM = Path(__file__).with_name("system.txt").read_text(encoding="utf-8").strip()
MAX_TURNS = 3
MAX_TOKENS = 96
COMMAND_TIMEOUT_S = 20
MAX_OUTPUT = 2000
MAX_SHOWN = 8000


def main() -> None:
    instruction = sys.stdin.read().strip()
    show_files()
    named = re.match(r"Answer .*, in ([\w./-]+)\.$", instruction, re.MULTILINE)
    answer = Path(named[1] if named else "answer.txt")
    language = "(?:sh|bash|shell)" if named else "(?:sh|bash|shell|)"
    before = contents(answer)
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": instruction},
    ]
    trajectory = Trajectory("minimal")
    trajectory.add("system", SYSTEM)
    trajectory.add("user", instruction)
    reply = ""
    for _ in range(MAX_TURNS):
        reply = complete(messages, MAX_TOKENS)
        commands = re.search(rf"```{language}\n(.*?)```", reply, re.DOTALL)
        if commands is None:
            trajectory.add("agent", reply)
            break
        output = run(commands[1])
        trajectory.add("agent", reply, **tool_call(commands[1], output))
        messages += [
            {"role": "assistant", "content": reply},
            {"role": "user", "content": f"Output:\n{output}"},
        ]
    if contents(answer) == before:
        answer.write_text(without_fence(reply), encoding="utf-8")


def show_files() -> None:
    """Prints the files that are there at first, for whoever reads the trial's log."""
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            print(f"==> {path} <==\n{text[:MAX_SHOWN]}")


def contents(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def without_fence(reply: str) -> str:
    """What a reply holds in its first code block, or all of it where it has none."""
    block = re.search(r"```\w*\n(.*?)```", reply, re.DOTALL)
    return block[1] if block else reply


def run(commands: str) -> str:
    """What the commands print, and how they ended unless well."""
    try:
        done = subprocess.run(
            ["sh", "-c", commands],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {COMMAND_TIMEOUT_S} s"
    status = f"\nexit status {done.returncode}" if done.returncode else ""
    return done.stdout.decode(errors="replace")[-MAX_OUTPUT:] + status


def tool_call(commands: str, output: str) -> dict[str, object]:
    """The fields of a trajectory's step that ran commands."""
    call = {"tool_call_id": "1", "function_name": "sh", "arguments": {"commands": commands}}
    result = {"source_call_id": "1", "content": output}
    return {"tool_calls": [call], "observation": {"results": [result]}}


if __name__ == "__main__":
    main()
