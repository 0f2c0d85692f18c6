"""A harness that looks up what a question is about, and has the model answer from that.

It takes the place of the minimal harness's `agent.py`; the other files stay. Of the texts in the
working directory the line that shares most with the question is shown to the model, and after it
the line of a best friend, if one is asked about; the option that the model's replies name most often
is the answer.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from model import Trajectory, complete, sample

SYSTEM = Path(__file__).with_name("system.txt").read_text(encoding="utf-8").strip()
SAMPLES = 6
TEMPERATURE = 0.5
MAX_TOKENS = 24


def main() -> None:
    instruction = sys.stdin.read().strip()
    question = instruction.splitlines()[-2]
    options = instruction.rpartition("Options: ")[2].split(", ")
    turns = [("system", SYSTEM), ("user", f"{passage(question)}\n\n{question} Answer in one word.")]
    trajectory = Trajectory("lookup")
    for role, text in turns:
        trajectory.add(role, text)
    messages = [{"role": role, "content": text} for role, text in turns]
    replies = [complete(messages, MAX_TOKENS)]
    if not named(replies[0], options):
        replies += sample(messages, MAX_TOKENS, SAMPLES, TEMPERATURE)
    for reply in replies:
        trajectory.add("agent", reply)
    votes = Counter(option for reply in replies for option in named(reply, options)[:1])
    Path("answer.txt").write_text(votes.most_common(1)[0][0] if votes else "", encoding="utf-8")


def passage(question: str) -> str:
    """The lines of the texts that a question leads to."""
    lines = [
        line
        for path in sorted(Path().glob("*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    first = closest(question, lines)
    friend = re.search(r"best friend of \w+ is (\w+)", first)
    if friend is None or "best friend" not in question:
        return first
    return f"{first}\n{closest(friend[1], lines)}"


def closest(question: str, lines: list[str]) -> str:
    """The line that shares the rarest words with a question, and has them most often."""
    frequency = Counter(word for line in lines for word in words(line))
    asked = {*words(question)}
    return max(
        lines,
        key=lambda line: sum(1 / frequency[word] for word in words(line) if word in asked),
        default="",
    )


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def named(reply: str, options: list[str]) -> list[str]:
    """The options that a reply names, in the order in which it does."""
    found = {
        option: match.start()
        for option in options
        if (match := re.search(rf"\b{re.escape(option)}\b", reply, re.IGNORECASE))
    }
    return sorted(found, key=lambda option: found[option])


if __name__ == "__main__":
    main()
