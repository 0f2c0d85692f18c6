"""Passes if the repaired function gives the hidden values.

The function is an agent's, and this process writes the reward: so it is not imported. It has to be
one function of plain expressions over its parameters, and is called with the few builtins that a
repair needs, none of which reaches a file, a module or this program.
"""

import ast
import resource
from collections.abc import Iterator
from typing import Any

from reward import decide, text_of

SECONDS, MEMORY = 2, 256 << 20
BUILTINS = {
    function.__name__: function
    for function in (abs, all, any, bool, float, int, len, list, max, min, range, reversed, round)
} | {function.__name__: function for function in (set, sorted, str, sum, tuple, zip, enumerate)}
METHODS = {"count", "endswith", "index", "join", "lower", "replace", "split", "startswith"} | {
    *("strip", "title", "upper", "lstrip", "rstrip", "isdigit", "isalpha", "find", "append"),
}
PLAIN = (
    *(ast.arguments, ast.arg, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop),
    *(ast.Return, ast.Assign, ast.AugAssign, ast.For, ast.If, ast.While, ast.Expr, ast.Pass),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword),
    *(ast.Constant, ast.Name, ast.Subscript, ast.Slice, ast.List, ast.Tuple, ast.Set, ast.Dict),
    *(ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.comprehension, ast.Attribute, ast.Break),
)


def passes(expected: Any) -> bool:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    function = repaired(text_of(expected["file"]) or "", expected["name"])
    return function is not None and all(
        holds(function, arguments, value) for arguments, value in expected["cases"]
    )


def holds(function: Any, arguments: list[Any], value: Any) -> bool:
    try:
        return bool(function(*arguments) == value)
    except Exception:  # noqa: BLE001 -- whatever the agent's function raises, it is wrong
        return False


def repaired(source: str, name: str) -> Any:
    """The function of that name if the source holds it alone, and it is plain; None otherwise."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match tree.body:
        case [ast.FunctionDef(decorator_list=[]) as function] if is_plain(function):
            space: dict[str, Any] = {"__builtins__": BUILTINS}
            exec(compile(tree, "<repaired>", "exec"), space)
            return space.get(name)
        case _:
            return None


def is_plain(function: ast.FunctionDef) -> bool:
    return all(map(is_plain_node, below(function)))


def is_plain_node(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=attribute):
            return attribute in METHODS
        case ast.Name(id=identifier) | ast.arg(arg=identifier):
            return not identifier.startswith("_")
        case _:
            return isinstance(node, PLAIN)


def below(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        yield from below(child)


decide(passes)
