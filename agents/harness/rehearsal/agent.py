"""A harness that rehearses the model's commands in a copy of the working directory.

It takes the place of the minimal harness's `agent.py`; the other files stay. The model is asked as
the minimal harness asks; if what it writes does not work in the copy, it is shown examples like the
request, one request at a time, and asked again. What worked is run where it counts.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from model import Trajectory, complete, sample

HERE = Path(__file__).parent
SYSTEM = (HERE / "system.txt").read_text(encoding="utf-8").strip()
EXAMPLES = json.loads((HERE / "examples.json").read_text(encoding="utf-8"))
SHOWN = 8
TRIES = 4
TEMPERATURE = 0.7
MAX_TOKENS = 48
ALLOWED = set("cat cp echo grep head mkdir mv printf rm sort tail touch wc".split())


def main() -> None:
    instruction = sys.stdin.read().strip()
    request = instruction.rpartition("\n")[2]
    trajectory = Trajectory("rehearsal")
    first = [("system", SYSTEM), ("user", instruction)]
    commands = script(ask(trajectory, first))
    if not works(commands, request):
        commands = "\n".join(step(trajectory, part) for part in parts(request))
    if is_harmless(commands):
        subprocess.run(["sh", "-c", commands], check=False)


def parts(request: str) -> list[str]:
    """The requests that a compound one is made of."""
    found = re.split(r"(?<=\.) (?:Then|After that:?|Next,?|And then) ", request)
    return [part[0].upper() + part[1:] for part in found if part]


def step(trajectory: Trajectory, request: str) -> str:
    """The first commands for one request that work in the copy; the first of all if none do."""
    turns = [("system", "Write the shell command.")]
    for asked, said in like(request):
        turns += [("user", asked), ("assistant", said)]
    turns.append(("user", request))
    replies = [script(ask(trajectory, turns))]
    if not works(replies[0], request):
        replies += map(script, ask_again(trajectory, turns))
    return next((reply for reply in replies if works(reply, request)), replies[0])


def ask(trajectory: Trajectory, turns: list[tuple[str, str]]) -> str:
    """The reply to a conversation of (role, text) turns."""
    for role, text in turns:
        trajectory.add("agent" if role == "assistant" else role, text)
    reply = complete([{"role": role, "content": text} for role, text in turns], MAX_TOKENS)
    trajectory.add("agent", reply)
    return reply


def ask_again(trajectory: Trajectory, turns: list[tuple[str, str]]) -> list[str]:
    """Other replies to the same."""
    messages = [{"role": role, "content": text} for role, text in turns]
    replies = sample(messages, MAX_TOKENS, TRIES - 1, TEMPERATURE)
    for reply in replies:
        trajectory.add("agent", reply)
    return replies


def like(request: str) -> list[list[str]]:
    """The examples that share most words with the request, the likest last."""
    wanted = words(request)

    def likeness(example: list[str]) -> float:
        own = words(example[0])
        return len(wanted & own) / len(wanted | own)

    return sorted(EXAMPLES, key=likeness)[-SHOWN:]


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", re.sub(r"\S+\.txt", " ", text.lower()))}


def script(reply: str) -> str:
    """The commands in a reply: its code block, or its first line."""
    block = re.search(r"```\w*\n(.*?)(?:```|$)", reply, re.DOTALL)
    return block[1].strip() if block else reply.strip().partition("\n")[0].strip("`$ ")


def is_harmless(commands: str) -> bool:
    """Whether only known programs are called, and nothing outside of the directory is named."""
    pieces = re.split(r"[\n;|]|&&", commands)
    called = {words[0] for piece in pieces if (words := piece.split())}
    return bool(called) and called <= ALLOWED and not re.search(r"(^|\s)/|\.\.|~|\$", commands)


def works(commands: str, request: str) -> bool:
    """Whether commands use all files and numbers of a request, succeed, and change something."""
    if not is_harmless(commands) or any(name not in commands for name in names(request)):
        return False
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(os.getcwd(), copy)
        before = state(copy)
        done = subprocess.run(
            ["sh", "-ec", commands], cwd=copy, capture_output=True, timeout=10, check=False
        )
        return done.returncode == 0 and state(copy) != before


def names(request: str) -> list[str]:
    return re.findall(r"\w+\.txt|\d+", request)


def state(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


if __name__ == "__main__":
    main()
