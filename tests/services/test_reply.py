"""Reading replies: any text in, nothing lost, thoughts and calls told apart from what was said."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.services.reply import Reply, parts, read
from rsigym.services.tool_formats import Call, JsonCalls, TaggedCalls, Tool, ToolFormat

WEATHER: Tool = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
PARIS = '{"city": "Paris"}'
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {PARIS}}}\n</tool_call>'
TAGGED_CALL = (
    "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
)


def _read(text: str, form: ToolFormat | None = None, thinks: bool = True) -> Reply:
    return read(parts(text, thinks=thinks, form=form or JsonCalls(), tools=[WEATHER]))


def _tagged(text: str) -> list[Call]:
    return [*_read(text, TaggedCalls()).calls]


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Twelve.\n", Reply("Twelve.\n")),
        ("", Reply("")),
        (CALL, Reply("", calls=(Call("weather", PARIS),))),
        (f"Let me look.\n{CALL}\n", Reply("Let me look.", calls=(Call("weather", PARIS),))),
        (f"{CALL}\n{CALL}", Reply("", calls=(Call("weather", PARIS),) * 2)),
        (f"A{CALL}B{CALL}C", Reply("A\nB\nC", calls=(Call("weather", PARIS),) * 2)),
        ("<think>\nSeven, five.\n</think>\n\nTwelve.", Reply("Twelve.", "Seven, five.")),
        ("\n<think>Hm</think>", Reply("", "Hm")),
        ("<think>\nand on and on", Reply("", "and on and on")),
        (f"<think>\nI could {CALL}\n</think>\nNo.", Reply("No.", f"I could {CALL}")),
        (f"<think>\nHm\n{CALL}", Reply("", "Hm", (Call("weather", PARIS),))),
        (f"<think>Hm</think>{CALL}", Reply("", "Hm", (Call("weather", PARIS),))),
        ("Say <think> aloud</think>", Reply("Say <think> aloud</think>")),
        # What names no function is no call.
        ("<tool_call></tool_call>", Reply("<tool_call></tool_call>")),
        ("<tool_call>{}</tool_call>", Reply("<tool_call>{}</tool_call>")),
        ('<tool_call>{"name": "a b"}</tool_call>', Reply('<tool_call>{"name": "a b"}</tool_call>')),
        (f"<tool_call>{CALL}", Reply("<tool_call>", calls=(Call("weather", PARIS),))),
    ],
)
def test_a_reply_is_thought_said_and_called(text: str, reply: Reply) -> None:
    assert _read(text) == reply


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('{"name": "f", "arguments": {"x":  1.0}}', '{"x":  1.0}'),
        ('{"arguments": {"name": "no"}, "name": "f"}', '{"name": "no"}'),
        ('{"name": "f"}', "{}"),
        ('{"name": "f", "arguments": null}', "null"),
        ('{"name": "f", "arguments": "{\\"x\\": 1}"}', '{"x": 1}'),
        ('{"name": "f", "arguments": {"x": "</tool_call>"}}', '{"x": "</tool_call>"}'),
        ('{"name": "f", "arguments": {"x": 1,}}', '{"x": 1,}'),
        ('{"name": "f", "arguments": {x: 1}}', "{x: 1}"),
        ('{"name": "f", "arguments": {"x": NaN}}', '{"x": NaN}'),
        ('{"name": "f", "arguments": {"x": 1}', '{"x": 1}'),
        ('{"name": "f", "arguments": {"x": "half', '{"x": "half'),
        ('{"name": "f", "arguments": "\\ud800"}', '"\\ud800"'),
    ],
)
@pytest.mark.parametrize("close", ["</tool_call>", "\n</tool_call>", ""])
def test_arguments_are_what_the_model_wrote(body: str, arguments: str, close: str) -> None:
    assert _read(f"<tool_call>\n{body}{close}").calls == (Call("f", arguments),)


def test_tagged_parameters_have_the_types_of_the_schema() -> None:
    assert [json.loads(call.arguments) for call in _tagged(TAGGED_CALL * 2)] == [
        {"city": "Paris", "days": 3}
    ] * 2
    number = TAGGED_CALL.replace("Paris", "75001")
    assert json.loads(_tagged(number)[0].arguments)["city"] == "75001"


def test_tagged_parameters_that_are_not_well_formed_stay_as_they_are() -> None:
    half = TAGGED_CALL.partition("\n</parameter>")[0]
    assert _tagged(half) == [Call("weather", "<parameter=city>\nParis")]
    assert _tagged("<tool_call><function=weather></function></tool_call>") == [
        Call("weather", "{}")
    ]


@pytest.mark.parametrize("form", [JsonCalls(), TaggedCalls()])
def test_a_call_is_read_as_it_is_written(form: ToolFormat) -> None:
    call = Call("weather", "not JSON {")
    assert _read(form.write(call), form).calls == (call,)


_MARKS = st.sampled_from(
    [
        *("<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "f", "arguments": '),
        *("<function=f>", "</function>", "<parameter=x>", "</parameter>", "{", "}", '"', "\\"),
        *("\n", " ", "1e999", "NaN", "\\ud800", CALL, TAGGED_CALL),
    ]
)


@given(
    pieces=st.lists(_MARKS | st.text(max_size=8), max_size=20),
    thinks=st.booleans(),
    form=st.sampled_from([JsonCalls(), TaggedCalls(), None]),
)
def test_any_text_is_read_and_nothing_is_lost(
    pieces: list[str], thinks: bool, form: ToolFormat | None
) -> None:
    text = "".join(pieces)
    found = parts(text, thinks=thinks, form=form, tools=[WEATHER])
    assert "".join(part.text for part in found) == text
    assert all(part.text for part in found)
    reply = read(found)
    json.dumps([reply.content, reply.reasoning, [c.arguments for c in reply.calls]]).encode()
    "".join([reply.content, reply.reasoning, *(c.arguments for c in reply.calls)]).encode()
    if form is None:
        assert reply.calls == ()
    if not thinks:
        assert reply.reasoning == ""


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(arguments=st.dictionaries(st.text(), _JSON, max_size=4), before=st.text(max_size=10))
def test_json_arguments_come_back_to_the_letter(arguments: dict[str, Any], before: str) -> None:
    written = json.dumps(arguments, ensure_ascii=False)
    text = before + JsonCalls().write(Call("f", written))
    assert _read(text, thinks=False).calls == (Call("f", written),)


def test_a_text_full_of_tags_is_read_in_no_time() -> None:
    text = '<tool_call>{"name": "f", "arguments": [[[[' * 5000
    assert len(_read(text).calls) == 5000
