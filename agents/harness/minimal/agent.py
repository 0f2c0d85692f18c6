"""A minimal harness: the model may run shell commands; its last reply is the answer."""

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
ANSWER = "answer.txt"


def main() -> None:
    instruction = sys.stdin.read().strip()
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
        commands = re.search(r"```sh\n(.*?)```", reply, re.DOTALL)
        if commands is None:
            trajectory.add("agent", reply)
            break
        output = run(commands[1])
        trajectory.add("agent", reply, **tool_call(commands[1], output))
        messages += [
            {"role": "assistant", "content": reply},
            {"role": "user", "content": f"Output:\n{output}"},
        ]
    if not os.path.exists(ANSWER):
        with open(ANSWER, "w", encoding="utf-8") as file:
            file.write(reply)


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
