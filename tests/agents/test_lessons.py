"""The scripted researcher's training data: right, its own, and the same for a seed."""

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lessons import LESSONS, Record, Seen
from lessons.choice import facts
from lessons.record import material

from rsigym import benchmarks
from rsigym.benchmarks.choice import World
from rsigym.benchmarks.data import table
from rsigym.benchmarks.integer_sentences import SENTENCES
from rsigym.benchmarks.mutants import shape
from rsigym.benchmarks.tasks import Split

SPLITS: tuple[Split, Split] = ("development", "official")
SEEDS = range(3)


def seen(name: str) -> Seen:
    task = benchmarks.get(name).generate("development", 0, 1)[0]
    return Seen("Answer.", task.instruction.strip(), task.files)


def records(name: str, seed: int, count: int = 300) -> list[Record]:
    return LESSONS[name].records(count, seed, seen(name))


def said(record: Record, role: str) -> list[str]:
    return [message["content"] for message in record["messages"] if message["role"] == role]


def test_there_is_a_lesson_for_every_benchmark():
    assert [*LESSONS] == benchmarks.names()


@pytest.mark.parametrize("name", LESSONS)
def test_records_are_conversations_of_the_seed(name: str):
    made = records(name, 1)
    assert len(made) == 300
    assert made == records(name, 1) != records(name, 2)
    assert len({json.dumps(record) for record in made}) > 250
    for record in made:
        roles = [message["role"] for message in record["messages"]]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2)]
        assert all(message["content"] for message in record["messages"])


@pytest.mark.parametrize("name", LESSONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_task_is_among_the_records(name: str, seed: int):
    benchmark = benchmarks.get(name)
    asked = {text.strip() for record in records(name, seed) for text in said(record, "user")}
    for split in SPLITS:
        assert not asked & {t.instruction.strip() for t in benchmark.generate(split, 0, 40)}


@pytest.mark.parametrize("name", LESSONS)
def test_records_have_the_form_that_the_tasks_have(name: str):
    form = seen(name).instruction.partition(",")[0]
    asked = [said(record, "user")[0] for record in records(name, 1)]
    assert sum(text.startswith(form) for text in asked) >= 150


@pytest.mark.parametrize("seed", SEEDS)
def test_calculations_are_right(seed: int):
    for record in records("Integers", seed):
        (question,), (answer,) = said(record, "user"), said(record, "assistant")
        expression, _, value = answer.partition(" = ")
        assert eval(compile(ast.parse(expression, mode="eval"), "", "eval")) == int(value) >= 0
        assert sorted(re.findall(r"\d+", expression)) == sorted(re.findall(r"\d+", question))


def test_the_words_of_the_records_are_in_no_task():
    own = material("integers")
    sentences = {sentence for each in own["questions"].values() for sentence in each}
    for split in SENTENCES.values():
        assert not sentences & {s for each in split.templates.values() for s in each}
        assert not {*own["names"]} & {*split.names}
        assert not {*own["items"]} & {*split.items}
    for name in ("shell", "office"):
        for split in SPLITS:
            _share_nothing(material(name), table(name)[split])


def _share_nothing(own: dict[str, list[str]], theirs: dict[str, list[str]]) -> None:
    for part in ("files", "new_files", "folders", "words", "first_names", "last_names", "towns"):
        assert not {*own.get(part, ())} & {*theirs.get(part, ())}, part


def test_requests_are_worded_as_in_no_task():
    own = {w for each in material("shell")["requests"].values() for w in each}
    for split in SPLITS:
        assert not own & {w for each in table("shell")[split]["requests"].values() for w in each}


@pytest.mark.parametrize("seed", SEEDS)
def test_repairs_are_right_and_of_no_official_function(seed: int):
    official = {shape(*each) for each in table("repair")["official"]["functions"].values()}
    for record in records("Repair", seed):
        (repaired,) = said(record, "assistant")
        found = re.fullmatch(r"def \w+\((.*)\):\n    return (.*)", repaired)
        assert found
        assert shape(found[1], found[2]) not in official
        assert repaired not in said(record, "user")[0]


def test_facts_are_what_the_text_says():
    world = World.of(0)
    assert facts(world.text) == {
        person: {**its, "friend": world.friends[person]} for person, its in world.people.items()
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_about_the_world_are_true_and_ask_for_every_fact(seed: int):
    world = World.of(0)
    true = {value for person in world.people.values() for value in person.values()}
    answers = {said(record, "assistant")[-1] for record in records("Choice", seed)}
    assert answers == true
    own = _wordings(material("choice"), "questions")
    for split in SPLITS:
        assert not own & _wordings(table("choice")[split], "direct")


def _wordings(said: Any, direct: str) -> set[str]:
    return {*said["friend"], *(wording for each in said[direct].values() for wording in each)}


def test_what_a_record_looks_up_is_what_its_commands_print(tmp_path: Path):
    (tmp_path / "people.txt").write_text(World.of(0).text)
    looked_up = [r for r in records("Choice", 1, 60) if len(r["messages"]) > 3]
    assert len(looked_up) == 45
    assert {len(said(record, "assistant")) for record in looked_up} == {2, 3}
    for record in looked_up:
        *looks, answer = said(record, "assistant")
        for look, shown in zip(looks, said(record, "user")[1:], strict=True):
            commands = look.removeprefix("```sh\n").removesuffix("\n```")
            printed = subprocess.check_output(["sh", "-c", commands], cwd=tmp_path, text=True)
            assert shown == f"Output:\n{printed}"
        assert re.search(rf"\b{answer}\b", said(record, "user")[-1])
