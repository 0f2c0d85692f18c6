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
    ("def add(a, b):\n    return a - b", "assert add(2, 3) == 5", "a + b"),
    ("def lowest(values):\n    return max(values)", "assert lowest([4, 2]) == 2", "min(values)"),
    ("def third(values):\n    return values[3]", "assert third([7, 8, 9, 5]) == 9", "values[2]"),
    ("def is_long(text):\n    return len(text) < 5", "assert is_long('no') == False", "len(text) > 5"),
    ("def times_six(n):\n    return n * 7", "assert times_six(2) == 12", "n * 6"),
    ("def shorten(text):\n    return text[:4]", "assert shorten('abcde') == 'abc'", "text[:3]"),
)
SAMPLES = 4
TEMPERATURE = 0.8
MAX_TOKENS = 48
TEST_TIMEOUT_S = 5


def main() -> None:
    instruction = sys.stdin.read().strip()
    file = Path(instruction.partition("\n")[0].rpartition(" ")[2].rstrip("."))
    broken = file.read_text(encoding="utf-8")
    trajectory = Trajectory("tester")
    plain = conversation(trajectory, [("system", SYSTEM), ("user", instruction)])
    taught = conversation(trajectory, [*examples(), ("user", bug(broken, checks(file)[0]))])
    passed = (
        attempt(file, trajectory, [complete(plain, MAX_TOKENS), complete(taught, MAX_TOKENS)])
        or attempt(file, trajectory, sample(plain, MAX_TOKENS, SAMPLES, TEMPERATURE))
        or attempt(file, trajectory, sample(taught, MAX_TOKENS, SAMPLES, TEMPERATURE))
    )
    if not passed:
        file.write_text(broken, encoding="utf-8")


def examples() -> list[tuple[str, str]]:
    """The turns of a conversation in which functions were repaired."""
    turns = [("system", "Correct the function so that the assertion holds.")]
    for source, check, right in EXAMPLES:
        head = source.partition("return ")[0]
        turns += [("user", bug(source, check)), ("assistant", f"{head}return {right}")]
    return turns


def bug(source: str, check: str) -> str:
    return f"{source.strip()}\n\n{check}"


def checks(file: Path) -> list[str]:
    """The assertions of the file's test."""
    lines = Path(f"test_{file.name}").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("assert ")]


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
