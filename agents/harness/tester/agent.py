"""A harness that runs the repository's test on what the model writes, and has it try again.

It takes the place of the minimal harness's `agent.py`; the other files stay. The model is asked as
the minimal harness asks, then with examples of repairs before it, several times over; the first
reply that passes the test is the answer.
"""

import re
import subprocess
import sys
from pathlib import Path

from model import Trajectory, complete, sample

SYSTEM = Path(__file__).with_name("system.txt").read_text(encoding="utf-8").strip()
EXAMPLES = (
    (
        "def add(a, b):\n    return a - b\n\nThe test fails: assert add(2, 3) == 5, but it returned -1.",
        "def add(a, b):\n    return a + b",
    ),
    (
        "def lowest(values):\n    return max(values)\n\n"
        "The test fails: assert lowest([4, 2]) == 2, but it returned 4.",
        "def lowest(values):\n    return min(values)",
    ),
    (
        "def third(values):\n    return values[3]\n\n"
        "The test fails: assert third([7, 8, 9]) == 9, but it raised IndexError.",
        "def third(values):\n    return values[2]",
    ),
    (
        "def is_long(text):\n    return len(text) < 10\n\n"
        "The test fails: assert is_long('hi') == False, but it returned True.",
        "def is_long(text):\n    return len(text) > 10",
    ),
)
SAMPLES = 8
TEMPERATURE = 0.8
MAX_TOKENS = 64
TEST_TIMEOUT_S = 5


def main() -> None:
    instruction = sys.stdin.read().strip()
    form, _, bug = instruction.partition("\n\n")
    file = Path(form.rpartition(" ")[2].rstrip("."))
    broken = file.read_text(encoding="utf-8")
    trajectory = Trajectory("tester")
    shown = [turn for asked, said in EXAMPLES for turn in (("user", asked), ("assistant", said))]
    plain = conversation(trajectory, [("system", SYSTEM), ("user", instruction)])
    taught = [("system", "Write the corrected function."), *shown, ("user", bug)]
    if attempt(file, trajectory, [complete(plain, MAX_TOKENS)]):
        return
    if attempt(file, trajectory, sample(plain, MAX_TOKENS, SAMPLES, TEMPERATURE)):
        return
    turns = conversation(trajectory, taught)
    if not attempt(file, trajectory, sample(turns, MAX_TOKENS, SAMPLES, TEMPERATURE)):
        file.write_text(broken, encoding="utf-8")


def conversation(trajectory: Trajectory, turns: list[tuple[str, str]]) -> list[dict[str, str]]:
    """The messages of (role, text) turns, noted as asked."""
    for role, text in turns:
        trajectory.add("agent" if role == "assistant" else role, text)
    return [{"role": role, "content": text} for role, text in turns]


def attempt(file: Path, trajectory: Trajectory, replies: list[str]) -> bool:
    """Whether one of the replies passes the test; it is then what the file holds."""
    for reply in replies:
        trajectory.add("agent", reply)
    for source in dict.fromkeys(map(function, replies)):
        if source:
            file.write_text(source, encoding="utf-8")
            if passes(file):
                return True
    return False


def function(reply: str) -> str:
    """The function that a reply holds, without what is said around it."""
    found = re.search(r"def \w+\(.*\):\s*\n(?:[ \t]+.*\n?)+", reply)
    return found[0].rstrip("`\n ") + "\n" if found else ""


def passes(file: Path) -> bool:
    """Whether the file's test succeeds, in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, f"test_{file.name}"],
            env={"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=TEST_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
