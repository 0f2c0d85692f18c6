"""Texts that are read in pieces: how a piece says whether and where the text goes on."""

from rsigym.operations.json_value import Json

__all__ = ["piece_of", "piece_told"]


def piece_of(text: str, offset: int, limit: int) -> dict[str, Json]:
    """At most `limit` characters of a text, from a character offset."""
    end = offset + limit
    return piece_told(text[offset:end], offset, more=end < len(text))


def piece_told(content: str, offset: int, *, more: bool) -> dict[str, Json]:
    """A piece that was read from a character offset, as every `read` answers it."""
    return {
        "content": content,
        "offset": offset,
        "next_offset": offset + len(content) if more else None,
    }
