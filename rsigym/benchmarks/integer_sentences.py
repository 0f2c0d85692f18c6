"""The sentences, names and items of `Integers`: one table a split, with nothing in common.

`{a}`, `{b}` and `{c}` stand for the operands of the operation, `{name}` and `{items}` for a name
and an item of the same table. Both tables cover the same operations, so what a system learns on
one carries over, while no sentence, name or item of one occurs in the other.
"""

from dataclasses import dataclass
from typing import Final

from rsigym.benchmarks.tasks import Split

__all__ = ["SENTENCES", "Sentences"]


@dataclass(frozen=True)
class Sentences:
    """What one split may say: `templates` by operation, first names, and countable items."""

    templates: dict[str, tuple[str, ...]]
    names: tuple[str, ...]
    items: tuple[str, ...]


_DEVELOPMENT = Sentences(
    templates={
        "sum": ("What is {a} + {b}?", "{a} + {b} = ?"),
        "difference": ("What is {a} - {b}?", "{a} - {b} = ?"),
        "product": ("What is {a} * {b}?", "{a} * {b} = ?"),
        "gain": (
            "{name} has {a} {items} and buys {b} more. How many {items} does {name} have now?",
            "There were {a} {items} in the box and {name} put in {b} more. "
            "How many {items} are in the box?",
        ),
        "loss": (
            "{name} had {a} {items} and gave away {b}. How many {items} are left?",
            "{name} picked {a} {items} but lost {b} of them. How many {items} remain?",
        ),
        "groups": (
            "{name} fills {a} boxes with {b} {items} each. How many {items} is that?",
            "There are {a} shelves with {b} {items} on each shelf. How many {items} are there?",
        ),
        "sharing": (
            "{name} shares {a} {items} equally among {b} friends. "
            "How many {items} does each friend get?",
            "{a} {items} are put into {b} equal piles. How many {items} are in each pile?",
        ),
        "groups and more": (
            "{name} has {a} boxes of {b} {items} and {c} loose {items}. How many {items} in all?",
        ),
        "groups and fewer": (
            "{name} bought {a} boxes of {b} {items} and {c} {items} were broken. "
            "How many good {items} are there?",
        ),
        "gain and loss": (
            "{name} had {a} {items}, found {b} more and then lost {c}. "
            "How many {items} does {name} have?",
        ),
        "three parts": (
            "{name} counted {a} {items} on Monday, {b} on Tuesday and {c} on Friday. "
            "How many {items} in total?",
        ),
    },
    names=("Anna", "Peter", "Maria", "Jack", "Lucy", "Mark", "Emma", "Paul"),
    items=("apples", "books", "coins", "pencils", "marbles", "stamps", "cups", "shells"),
)

_OFFICIAL = Sentences(
    templates={
        "sum": ("Compute {a} + {b}.", "Find the sum of {a} and {b}."),
        "difference": ("Compute {a} - {b}.", "Take {b} away from {a}."),
        "product": ("Compute {a} * {b}.", "Find the product of {a} and {b}."),
        "gain": (
            "A shop sold {a} {items} in the morning and {b} {items} in the evening. "
            "How many {items} did it sell that day?",
            "{name} made {a} {items} and then made another {b}. How many {items} did {name} make?",
        ),
        "loss": (
            "Of {a} {items} in a shop, {b} were sold. How many {items} did not sell?",
            "{name} started with {a} {items} and used {b}. How many {items} can {name} still use?",
        ),
        "groups": (
            "Each of {a} children brings {b} {items}. How many {items} do they bring?",
            "{name} packs {b} {items} into every one of {a} bags. "
            "How many {items} did {name} pack?",
        ),
        "sharing": (
            "{name} splits {a} {items} evenly over {b} plates. How many {items} go on one plate?",
            "A class of {b} pupils divides {a} {items} fairly. "
            "How many {items} does one pupil receive?",
        ),
        "groups and more": (
            "{name} sees {a} rows of {b} {items}, plus {c} extra {items}. "
            "How many {items} does {name} see?",
        ),
        "groups and fewer": (
            "{name} prepared {a} trays of {b} {items}, but {c} {items} fell. "
            "How many {items} stayed on the trays?",
        ),
        "gain and loss": (
            "A shop had {a} {items}, {name} delivered {b}, and customers took {c}. "
            "How many {items} does the shop hold?",
        ),
        "three parts": (
            "{name} ordered {a} {items} in spring, {b} in summer and {c} in autumn. "
            "How many {items} did {name} order?",
        ),
    },
    names=("Henry", "Sophie", "Oscar", "Clara", "David", "Julia", "Simon", "Nora"),
    items=("roses", "eggs", "candles", "buttons", "lemons", "cakes", "bulbs", "tickets"),
)

SENTENCES: Final[dict[Split, Sentences]] = {"development": _DEVELOPMENT, "official": _OFFICIAL}
