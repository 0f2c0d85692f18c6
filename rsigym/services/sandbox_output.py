"""What a command prints, kept in bounds: the beginning, the end, and how much lies between."""

from rsigym.operations.json_value import json_size

__all__ = ["Kept"]

_HALF = 16_384
"""Characters that are kept of the beginning, and of the end."""

_MOST_BYTES = 28 * 1024
"""What one stream may take of an observation's 64 KiB of JSON."""


class Kept:
    """One stream of a command. Memory stays bounded however much comes."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._seen = 0

    def add(self, text: str) -> None:
        self._seen += len(text)
        room = _HALF - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-_HALF:]

    def text(self) -> tuple[str, int]:
        """What is shown, and how many characters were cut out of its middle."""
        half = _HALF
        while True:
            head, tail = self._head[:half], self._ending(half)
            cut = self._seen - len(head) - len(tail)
            shown = f"{head}\n[… {cut:,} characters …]\n{tail}" if cut else head + tail
            size = json_size(shown)
            if size is None or size <= _MOST_BYTES:
                return shown, cut
            half = half * _MOST_BYTES // (size + 1)

    def _ending(self, half: int) -> str:
        """The last `half` characters that are not among the first."""
        after = self._head[half:] + self._tail
        return after[max(0, len(after) - half) :]
