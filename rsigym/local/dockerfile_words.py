"""The words of a Dockerfile's instructions: lines, variables, lists."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping

__all__ = ["expand", "here_document", "logical_lines", "split_words", "variables"]

_VARIABLE = re.compile(r"\\(\$)|\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^{}$]*))?\})|(\$)")
_SINGLE_QUOTED = re.compile(r"'[^']*\$[^']*'")
_HERE_DOCUMENT = re.compile(r"(?:^|\s)\d*<<-?\s*[\"']?[A-Za-z_]")


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Instructions with the number of their first line; continuations joined, comments gone."""
    start, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.rstrip()
        if not line or line.lstrip().startswith("#"):
            continue
        start = start if parts else number
        parts.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            yield start, "".join(parts).strip()
            parts = []
    if parts:
        yield start, "".join(parts).strip()


def expand(text: str, known: Mapping[str, str]) -> str:
    """`$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` replaced; unset names are empty.

    Raises:
        ValueError: Something else begins with a dollar.
    """
    if here_document(text):
        raise ValueError("here-documents are not supported")
    if _SINGLE_QUOTED.search(text):
        raise ValueError("a dollar in single quotes is not supported")

    def value(found: re.Match[str]) -> str:
        escaped, short, name, operator, word, other = found.groups()
        if escaped:
            return escaped
        if other:
            raise ValueError("of variables, $NAME, ${NAME}, ${NAME:-word} and ${NAME:+word} can be")
        value = known.get(short or name)
        if operator is None:
            return value or ""
        is_set = value is not None if len(operator) == 1 else bool(value)
        if operator.endswith("+"):
            return word if is_set else ""
        return value if is_set and value is not None else word

    return _VARIABLE.sub(value, text)


def here_document(text: str) -> bool:
    """Whether the lines that follow would be its content."""
    return _HERE_DOCUMENT.search(text) is not None


def variables(value: str) -> dict[str, str]:
    """What ENV sets, in its new form and its old one.

    Raises:
        ValueError: It is in neither.
    """
    name, _, rest = value.partition(" ")
    # Without an equals sign it is the old form, of one variable: ENV NAME the whole rest.
    words = shlex.split(value) if "=" in name else [f"{name}={rest}" if rest else name]
    if not all("=" in word for word in words):
        raise ValueError("ENV needs NAME=value")
    return dict(word.split("=", 1) for word in words)


def split_words(value: str) -> list[str]:
    """The words of an instruction, also of one in the form of a JSON list.

    Raises:
        ValueError: A quote is not closed.
    """
    try:
        words = json.loads(value)
    except ValueError:
        words = None
    return list(map(str, words)) if isinstance(words, list) else shlex.split(value)
