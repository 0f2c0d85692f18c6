"""Stop strings are found in the text, however its tokens and bytes fall."""

import pytest
from tokenizers import Tokenizer, decoders, models

from rsigym.local.tinker.stopping import StopStrings
from tests.tiny_model import make_tiny_model


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = make_tiny_model(tmp_path_factory.mktemp("model"))
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    ("text", "string"),
    [
        ("Tom has 3 boxes", "3"),
        ("What is seven plus five?", "en plus fi"),
        ("first line\nsecond line", "\nsec"),
        ("naïve café, 日本", "café, 日"),
        ("so it ends<|im_end|>", "<|im_end|>"),
    ],
)
def test_the_token_that_completes_a_string_is_named(
    tokenizer: Tokenizer, text: str, string: str
) -> None:
    stops = StopStrings(tokenizer, ["never there", string])
    ids: list[int] = tokenizer.encode(text).ids
    ends = [i for i, token in enumerate(ids) if stops.completes(token)]
    decoded = [tokenizer.decode(ids[: i + 1], skip_special_tokens=False) for i in range(len(ids))]
    assert ends
    assert string in decoded[ends[0]]
    assert string not in decoded[ends[0] - 1]


def test_a_string_that_is_not_there_stops_nothing(tokenizer: Tokenizer) -> None:
    stops = StopStrings(tokenizer, ["boxers"])
    ids: list[int] = tokenizer.encode("Tom has 3 boxes, er s").ids
    assert not any(stops.completes(token) for token in ids)


def test_bytes_that_are_no_character_stop_nothing_and_hide_nothing() -> None:
    names = [*(f"<0x{byte:02X}>" for byte in range(256)), "stop", "a", "é"]
    ids = {name: token for token, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(ids, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    stops = StopStrings(tokenizer, ["éstop"])
    # The first two bytes of "é…" and a third that cannot follow; then the text, in bytes and whole.
    stray = [ids[name] for name in ("a", "<0xDC>", "<0x89>", "<0xEE>", "a", "<0xE9>", "stop")]
    assert not any(stops.completes(token) for token in stray)
    whole = [ids[name] for name in ("a", "<0xC3>", "<0xA9>", "stop")]
    assert [stops.completes(token) for token in whole] == [False, False, False, True]
