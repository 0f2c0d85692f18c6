"""`Choice`: one world, facts that belong to a split, and a verifier that counts options."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsigym import benchmarks
from rsigym.benchmarks.choice import MAX_QUESTIONS, World, questions
from rsigym.benchmarks.data import table
from rsigym.benchmarks.tasks import Split
from tests.benchmarks.judge import rewards

CHOICE = benchmarks.get("Choice")
SPLITS: tuple[Split, Split] = ("development", "official")


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_a_fact_is_asked_for_in_one_split_only(seed: int):
    development, official = ({q.fact for q in questions(s, seed, 100)} for s in SPLITS)
    assert not development & official


def test_splits_share_no_wording():
    said = table("choice")
    wordings = [
        {w for each in said[s]["direct"].values() for w in each}
        | {*said[s]["through"].values(), *said[s]["friend"]}
        for s in SPLITS
    ]
    assert not wordings[0] & wordings[1]


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), split=st.sampled_from(SPLITS))
def test_the_text_says_what_is_right_and_nothing_else_is(seed: int, split: Split):
    world = World.of(seed)
    for question in questions(split, seed, 40):
        person, asked = question.fact
        assert len({*question.options}) == 4
        assert [o for o in question.options if o == world.people[person][asked]] == [question.right]
        (paragraph,) = (text for text in world.text.splitlines() if text.startswith(person))
        assert [o for o in question.options if re.search(rf"\b{o}\b", paragraph)] == [
            question.right
        ]
        assert paragraph.endswith(f"The best friend of {person} is {world.friends[person]}.")


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_friendship_leads_from_everybody_to_everybody(seed: int):
    """So one look-up does not do: nobody's friend is the one whose friend they are."""
    friends = World.of(seed).friends
    met = [next(iter(friends))]
    while friends[met[-1]] not in met:
        met.append(friends[met[-1]])
    assert {*met} == {*friends}


@pytest.mark.parametrize("split", SPLITS)
def test_questions_lead_to_a_person_by_name_by_a_fact_and_by_a_friend(split: Split):
    world, asked = World.of(0), questions(split, 0, MAX_QUESTIONS)
    led = [_led_to(world, question.text) for question in asked]
    assert [kind for kind, _ in led] == ["name", "fact", "name", "friend"] * 30
    assert [person for _, person in led] == [question.fact[0] for question in asked]


def _led_to(world: World, text: str) -> tuple[str, str]:
    """How a question says whom it is about, and whom, by its words and the world alone."""
    said = {*re.findall(r"\w+", text)}
    if named := said & {*world.people}:
        (name,) = named
        return ("friend", world.friends[name]) if "friend" in said else ("name", name)
    (person,) = (name for name, its in world.people.items() if said & {*its.values()})
    return "fact", person


def test_an_answer_is_right_if_it_names_the_right_option_alone(tmp_path: Path):
    task = CHOICE.tasks("official", tmp_path / "tasks")[0]
    question = questions("official", 0, 1)[0]
    right = question.right
    wrong = next(option for option in question.options if option != right)
    good = [right, right.upper(), f"The answer is {right}.", f"{right}\n{right}"]
    bad = [wrong, f"{right} or {wrong}", f"{right}s", f"un{right}", ", ".join(question.options)]
    works = [(task, f"printf '%s' '{answer}' > answer.txt") for answer in (*good, *bad)]
    assert rewards(works, tmp_path) == ["1"] * len(good) + ["0"] * len(bad)


def test_guessing_gives_what_chance_does(tmp_path: Path):
    """Each place among the options is right in a quarter of the tasks, or about."""
    places = [q.options.index(q.right) for q in questions("official", 0, MAX_QUESTIONS)]
    assert [0.15 < places.count(place) / len(places) < 0.35 for place in range(4)] == [True] * 4
    task = CHOICE.tasks("official", tmp_path / "tasks")[1]
    options = questions("official", 0, 2)[1].options
    given = rewards([(task, f"echo {option} > answer.txt") for option in options], tmp_path)
    assert sorted(given) == ["0", "0", "0", "1"]
    assert CHOICE.chance == 1 / 4


def test_more_questions_than_there_are_is_refused():
    with pytest.raises(ValueError, match="at most 120"):
        questions("official", 0, MAX_QUESTIONS + 1)
