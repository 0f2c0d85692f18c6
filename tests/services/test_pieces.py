"""Texts in pieces, put together again."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rsigym.services.pieces import piece_of


@given(st.text(max_size=30), st.integers(1, 8))
def test_the_pieces_are_the_text(text: str, limit: int) -> None:
    read, offset = "", 0
    while offset is not None:
        piece: Any = piece_of(text, offset, limit)
        assert piece["offset"] == offset
        read, offset = read + piece["content"], piece["next_offset"]
    assert read == text


def test_behind_the_end_there_is_nothing() -> None:
    assert piece_of("ab", 5, 2) == {"content": "", "offset": 5, "next_offset": None}
