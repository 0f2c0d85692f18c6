"""Noticing that a text has come to one of its stop strings."""

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

__all__ = ["StopStrings"]


class StopStrings:
    """Watches the text of one sample, token by token, for any of some strings.

    Special tokens count as the text they are written with.
    """

    def __init__(self, tokenizer: Tokenizer, strings: Sequence[str]):
        self._tokenizer = tokenizer
        self._strings = strings
        self._stream = DecodeStream(skip_special_tokens=False)
        self._overlap = max(map(len, strings)) - 1
        self._tail = ""

    def completes(self, token: int) -> bool:
        """Whether the text, with this token, contains one of the strings."""
        # None while a character's bytes are not all there.
        piece = self._stream.step(self._tokenizer, token)
        if piece is None:
            return False
        text = self._tail + piece
        self._tail = text[-self._overlap :] if self._overlap else ""
        return any(string in text for string in self._strings)
