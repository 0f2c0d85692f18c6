"""Noticing that a text has come to one of its stop strings."""

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

__all__ = ["StopStrings"]

_NO_CHARACTER = "\ufffd"


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
        piece = self._decoded(token)
        if piece is None:
            return False
        text = self._tail + piece
        self._tail = text[-self._overlap :] if self._overlap else ""
        return any(string in text for string in self._strings)

    def _decoded(self, token: int) -> str | None:
        """The text that `token` adds; None while a character's bytes are not all there."""
        try:
            return self._stream.step(self._tokenizer, token)
        except Exception:  # noqa: BLE001 - the class that tokenizers raises
            # Bytes that are no character, where a tokenizer writes bytes as tokens: what they turn
            # into changes with what follows, which a stream takes for an error.
            self._stream = DecodeStream(skip_special_tokens=False)
            return _NO_CHARACTER + (self._stream.step(self._tokenizer, token) or "")
