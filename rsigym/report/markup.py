"""HTML that cannot be broken out of: whatever is not made here is text, and is escaped."""

import html
from collections.abc import Iterable, Sequence

__all__ = ["Html", "Node", "element", "join", "table"]


class Html(str):
    """Text that is HTML already. Only `element` and `join` make it."""

    __slots__ = ()


type Node = str | int | float | Iterable[Node] | None
"""`Html` stays as it is, every other string is escaped, None is nothing."""

_VOID = {"meta", "br"}


def element(tag: str, /, *children: Node, **attributes: str | int | float | None) -> Html:
    """An element of HTML or SVG.

    Args:
        tag: Its name.
        children: What is in it.
        attributes: By name: `class_` is `class`, `stroke_width` is `stroke-width`; None is left
            out.
    """
    opening = "".join(
        f' {_attribute(name)}="{_escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Html(f"<{tag}{opening}>")
    return Html(f"<{tag}{opening}>{join(children)}</{tag}>")


def join(nodes: Iterable[Node]) -> Html:
    """Nodes one after another."""
    return Html("".join(map(_render, nodes)))


def table(head: Sequence[Node], rows: Iterable[Sequence[Node]], class_: str | None = None) -> Html:
    """A table that scrolls sideways by itself where the screen is narrow."""
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", [element("th", cell) for cell in head])),
            element("tbody", [element("tr", [_cell(cell) for cell in row]) for row in rows]),
            class_=class_,
        ),
        class_="scroll",
    )


def _cell(content: Node) -> Html:
    return element("td", content, class_="number" if isinstance(content, int | float) else None)


def _render(node: Node) -> str:
    match node:
        case None:
            return ""
        case Html():
            return node
        case str() | int() | float():
            return _escape(node)
        case _:
            return join(node)


def _escape(value: str | float) -> str:
    """Escaped for text and attributes alike. Control characters, those that turn the direction of
    writing around and lone surrogates are replaced."""
    shown = "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in str(value)
    )
    return html.escape(shown)


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
