"""What is kept of a command's output: everything, or its two ends within a bound."""

from hypothesis import given
from hypothesis import strategies as st

from rsigym.operations.json_value import json_size
from rsigym.services.sandbox_output import Kept

PIECES = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), st.integers(0, 9000)), max_size=6
).map(lambda parts: [text * times for text, times in parts])


def kept(pieces: list[str]) -> tuple[str, int]:
    output = Kept()
    for piece in pieces:
        output.add(piece)
    return output.text()


@given(PIECES)
def test_two_streams_always_fit_into_an_observation(pieces: list[str]) -> None:
    shown, _ = kept(pieces)
    assert 2 * (json_size(shown) or 0) <= 60 * 1024


@given(PIECES)
def test_what_is_cut_is_counted_and_the_ends_are_kept(pieces: list[str]) -> None:
    whole = "".join(pieces)
    shown, cut = kept(pieces)
    if not cut:
        assert shown == whole
        return
    head, tail = shown.split(f"\n[… {cut:,} characters …]\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + cut + len(tail) == len(whole)
    assert head
    assert tail


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.integers(1, 50))
def test_pieces_may_come_in_any_size(text: str, size: int) -> None:
    assert kept([text[i : i + size] for i in range(0, len(text), size)]) == (text, 0)
