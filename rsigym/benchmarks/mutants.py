"""Expressions with one thing wrong: what `Repair` breaks its functions by."""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any, Final

__all__ = ["mutants", "shape"]

_OPERATORS: Final[dict[type[ast.AST], tuple[type[ast.AST], ...]]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mult),
    ast.Mult: (ast.Add, ast.Sub),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Mod, ast.Mult),
    ast.Mod: (ast.FloorDiv, ast.Add),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
_NAMES: Final = {
    "max": ("min", "sum"),
    "min": ("max", "sum"),
    "sum": ("len", "max"),
    "len": ("sum", "max"),
    "all": ("any",),
    "any": ("all",),
    "sorted": ("list",),
    "upper": ("lower", "title"),
    "lower": ("upper", "title"),
    "startswith": ("endswith",),
    "endswith": ("startswith",),
}

type Change = Callable[[], None]


def mutants(expression: str) -> list[str]:
    """The expression with one operator, number or function exchanged, or two operands; in every way
    known here, and in an order that is always the same."""
    found: dict[str, None] = {}
    for number in range(len(_changes(ast.parse(expression, mode="eval")))):
        tree = ast.parse(expression, mode="eval")
        _changes(tree)[number]()
        found.setdefault(ast.unparse(tree), None)
    found.pop(ast.unparse(ast.parse(expression)), None)
    return list(found)


def shape(parameters: str, expression: str) -> str:
    """The expression with its parameters numbered: equal for functions that differ in names."""
    numbers = {name: f"_{i}" for i, name in enumerate(parameters.split(", "))}
    tree = ast.parse(expression, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = numbers.get(node.id, node.id)
    return ast.unparse(tree)


def _changes(tree: ast.AST) -> list[Change]:
    """What can be done to a tree, each to be done alone."""
    return [change for node in ast.walk(tree) for change in _of(node)]


def _of(node: ast.AST) -> list[Change]:
    match node:
        case ast.BinOp(left=left, op=operator, right=right):
            others = [partial(_set, node, op=new()) for new in _OPERATORS.get(type(operator), ())]
            return [*others, partial(_set, node, left=right, right=left)]
        case ast.BoolOp(op=operator):
            return [partial(_set, node, op=new()) for new in _OPERATORS.get(type(operator), ())]
        case ast.Compare(ops=[operator]):
            return [partial(_set, node, ops=[new()]) for new in _OPERATORS.get(type(operator), ())]
        case ast.Constant(value=int(number)):
            return [partial(_set, node, value=new) for new in (number + 1, max(number - 1, 0))]
        case ast.Constant(value=str(text)):
            return [partial(_set, node, value=new) for new in (text[:-1], text.strip() + "!")]
        case ast.Name(id=name):
            return [partial(_set, node, id=new) for new in _NAMES.get(name, ())]
        case ast.Attribute(attr=name):
            return [partial(_set, node, attr=new) for new in _NAMES.get(name, ())]
        case _:
            return []


def _set(node: ast.AST, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(node, name, value)
