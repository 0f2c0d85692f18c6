"""A harness that has the model say what to calculate, and calculates it.

It takes the place of the minimal harness's `agent.py`; the other files stay. A model that was
taught to answer with a calculation is asked as the minimal harness asks; one that was not is then
shown examples.
"""

import ast
import operator
import re
import sys
from pathlib import Path

from model import Trajectory, complete

SYSTEM = Path(__file__).with_name("system.txt").read_text(encoding="utf-8").strip()
EXAMPLES = (
    ("What is 25 + 8?", "25+8"),
    ("Tom had 30 pens and sold 12. How many pens are left?", "30-12"),
    ("There are 4 bags with 6 plums in each bag. How many plums are there?", "4*6"),
    ("Ben shares 20 nuts equally among 5 squirrels. How many nuts does each get?", "20/5"),
    ("Kim has 3 packs of 5 pens and 2 more pens. How many pens does Kim have?", "3*5+2"),
    ("A bus had 14 people, 6 got on and 5 got off. How many people are on it?", "14+6-5"),
)
MAX_TOKENS = 32
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def main() -> None:
    instruction = sys.stdin.read().strip()
    question = instruction.rpartition("\n")[2]
    trajectory = Trajectory("calculator")
    plain = ask(trajectory, [("system", SYSTEM), ("user", instruction)])
    value = calculate(plain)
    if value is None:
        shown = [
            turn for asked, said in EXAMPLES for turn in (("user", asked), ("assistant", said))
        ]
        value = calculate(
            ask(trajectory, [("system", "Write the calculation."), *shown, ("user", question)])
        )
    with open("answer.txt", "w", encoding="utf-8") as file:
        file.write(plain if value is None else str(value))


def ask(trajectory: Trajectory, turns: list[tuple[str, str]]) -> str:
    """The reply to a conversation of (role, text) turns."""
    for role, text in turns:
        trajectory.add("agent" if role == "assistant" else role, text)
    reply = complete([{"role": role, "content": text} for role, text in turns], MAX_TOKENS)
    trajectory.add("agent", reply)
    return reply


def calculate(reply: str) -> int | None:
    """The value of the calculation that a reply begins with; None if there is none."""
    written = reply.strip().partition("\n")[0].replace("x", "*").replace("×", "*")
    expression = re.match(r"[\d\s()+*/-]+", written)
    try:
        tree = ast.parse(expression[0].strip() if expression else "", mode="eval").body
        value = evaluate(tree)
    except (SyntaxError, TypeError, ZeroDivisionError):
        return None
    return int(value) if isinstance(tree, ast.BinOp) and value == int(value) else None


def evaluate(node: ast.expr) -> float:
    """The value of whole numbers under + − * /; TypeError for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](evaluate(node.left), evaluate(node.right))
    raise TypeError(f"not arithmetic: {ast.dump(node)}")


if __name__ == "__main__":
    main()
