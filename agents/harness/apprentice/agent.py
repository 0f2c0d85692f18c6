"""A harness that reads the skill, shows its examples to the model, and checks the form of the line.

It takes the place of the minimal harness's `agent.py`; the other files stay. The model is asked as
the minimal harness asks, and with the skill's examples put before it as a conversation. If both come
to one line, and it looks like the examples', that is it; else both are asked several times over,
and the line counts that comes most often.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from model import Trajectory, sample

SYSTEM = Path(__file__).with_name("system.txt").read_text(encoding="utf-8").strip()
SAMPLES = 4
TEMPERATURE = 0.7
MAX_TOKENS = 32


def main() -> None:
    instruction = sys.stdin.read().strip()
    file = Path(instruction.partition("\n")[0].rpartition(" ")[2].rstrip("."))
    record = instruction.splitlines()[-2].removeprefix("Record: ")
    examples = skill_examples(instruction)
    trajectory = Trajectory("apprentice")
    plain = conversation(trajectory, [("system", SYSTEM), ("user", instruction)])
    taught = conversation(trajectory, lesson(record, examples))
    line = agreed(trajectory, [plain, taught], lambda line: fits(line, record, examples))
    file.write_text(line + "\n", encoding="utf-8")


def agreed(
    trajectory: Trajectory,
    conversations: list[list[dict[str, str]]],
    allowed: Callable[[str], bool],
) -> str:
    """The line that the conversations come to most often, of those that are allowed."""
    found: Counter[str] = Counter()
    for samples in (1, SAMPLES):
        for messages in conversations:
            temperature = TEMPERATURE if samples > 1 else 0
            lines = [first_line(r) for r in sample(messages, MAX_TOKENS, samples, temperature)]
            for line in lines:
                trajectory.add("agent", line)
            found.update(filter(allowed, lines))
        if max(found.values(), default=0) > 1:
            break
    return found.most_common(1)[0][0] if found else ""


def lesson(record: str, examples: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The turns of a conversation in which lines were made."""
    turns = [("system", "Make the line from the record.")]
    for asked, said in examples:
        turns += [("user", asked), ("assistant", said)]
    return [*turns, ("user", record)]


def skill_examples(instruction: str) -> list[tuple[str, str]]:
    """Records and their lines, from the skill that an instruction names."""
    named = re.search(r"\S+/SKILL\.md", instruction)
    text = Path(named[0]).read_text(encoding="utf-8") if named else ""
    return re.findall(r"^Record: (.*)\nLine: (.*)$", text, re.MULTILINE)


def conversation(trajectory: Trajectory, turns: list[tuple[str, str]]) -> list[dict[str, str]]:
    """The messages of (role, text) turns, noted as asked."""
    for role, text in turns:
        trajectory.add("agent" if role == "assistant" else role, text)
    return [{"role": role, "content": text} for role, text in turns]


def first_line(reply: str) -> str:
    return reply.strip().partition("\n")[0].strip("`")


def fits(line: str, record: str, examples: list[tuple[str, str]]) -> bool:
    """Whether a line looks like the examples' and says only what is in all of them or the record."""
    known = words(record) | {word[0] for word in words(record)}
    if examples:
        known |= set.intersection(*(words(made) for _, made in examples))
    return shape(line) in {shape(made) for _, made in examples} and known >= words(line)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def shape(line: str) -> str:
    """The line with like words alike, and numbers: "a A + 0" for "Olga GREEN + 57"."""
    marked = re.sub(r"[A-Z]{2,}", "+A", line)
    return re.sub(r"\d+", "0", re.sub(r"(?<!\+)\b[^\W\d]+", "a", marked))


if __name__ == "__main__":
    main()
