"""The tasks of `Integers`: the same for everyone, apart by split, and judged fairly."""

import asyncio
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym import benchmarks
from rsigym.benchmarks.integer_sentences import SENTENCES
from rsigym.benchmarks.integers import MAX_PROBLEMS, OPERATIONS, owner, problems
from rsigym.benchmarks.tasks import Split
from rsigym.local.sandbox import Sandbox
from rsigym.platform.errors import OperatorError

INTEGERS = benchmarks.get("Integers")


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def instructions(split: Split, cache: Path) -> list[str]:
    return [(task / "instruction.md").read_text() for task in INTEGERS.tasks(split, cache)]


def grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def test_tasks_are_named_and_numbered(tmp_path: Path):
    names = [task.name for task in INTEGERS.tasks("official", tmp_path)]
    assert names == [f"integers-off-{number:03}" for number in range(40)]
    assert INTEGERS.tasks("development", tmp_path)[7].name == "integers-dev-007"


def test_tasks_are_the_same_whoever_makes_them(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    for cache in (first, second):
        INTEGERS.tasks("development", cache)
        INTEGERS.tasks("official", cache)
    assert contents(first) == contents(second)


def test_another_seed_is_another_folder(tmp_path: Path):
    folders = {
        replace(INTEGERS, seed=seed).tasks("official", tmp_path)[0].parent for seed in (0, 1)
    }
    assert len(folders) == 2


def test_more_tasks_begin_with_the_fewer():
    assert problems("official", 3, 60)[:40] == problems("official", 3, 40)


@pytest.mark.parametrize("split", ["development", "official"])
def test_there_are_as_many_different_problems_as_promised(split: Split):
    found = problems(split, 5, MAX_PROBLEMS)
    assert len({(p.operation, p.expression) for p in found}) == MAX_PROBLEMS
    with pytest.raises(ValueError, match="at most 400"):
        problems(split, 5, MAX_PROBLEMS + 1)


def test_tasks_are_written_once_and_whole_by_many_at_once(tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: INTEGERS.tasks("official", tmp_path), range(8)))
    assert all(tasks == made[0] for tasks in made)
    assert os.listdir(tmp_path) == [made[0][0].parent.name]
    assert all((task / "solution" / "solve.sh").is_file() for task in made[0])


@pytest.mark.parametrize("split", ["development", "official"])
def test_harbor_takes_every_task(split: Split, tmp_path: Path):
    from harbor.models.task.config import NetworkMode
    from harbor.models.task.task import Task

    for folder in INTEGERS.tasks(split, tmp_path):
        task = Task(folder)
        assert task.config.environment.network_mode == NetworkMode.NO_NETWORK
        assert task.config.agent.timeout_sec == INTEGERS.agent_timeout_s
        assert "__" not in str(folder.relative_to(tmp_path))


def test_no_task_names_its_answer_outside_of_tests_and_solution(tmp_path: Path):
    for folder in INTEGERS.tasks("official", tmp_path):
        shown = [name for name in contents(folder) if not name.startswith(("tests", "solution"))]
        assert sorted(shown) == ["environment/Dockerfile", "instruction.md", "task.toml"]


def test_splits_share_no_sentence_name_or_item():
    development, official = SENTENCES["development"], SENTENCES["official"]
    assert development.templates.keys() == official.templates.keys() == OPERATIONS.keys()
    assert not {*development.names} & {*official.names}
    assert not {*development.items} & {*official.items}
    said = [{s for each in split.templates.values() for s in each} for split in SENTENCES.values()]
    assert not said[0] & said[1]


@given(seed=st.integers(0, 1000))
def test_splits_share_no_operands(seed: int):
    operands = [
        {tuple(sorted(re.findall(r"\d+", problem.expression))) for problem in problems(s, seed, 40)}
        for s in ("development", "official")
    ]
    assert not operands[0] & operands[1]


def test_instructions_share_no_long_phrase(tmp_path: Path):
    development = {g for text in instructions("development", tmp_path) for g in grams(text, 13)}
    for text in instructions("official", tmp_path):
        assert not grams(text, 13) & development


@given(st.lists(st.integers(0, 99), min_size=2, max_size=3))
def test_operands_belong_to_one_split_in_any_order(operands: list[int]):
    assert owner(tuple(operands)) == owner(tuple(reversed(operands)))


@given(seed=st.integers(0, 1000), split=st.sampled_from(["development", "official"]))
def test_answers_are_whole_and_not_negative(seed: int, split: Split):
    for problem in problems(split, seed, 22):
        value = eval(problem.expression)
        assert value == problem.answer >= 0
        assert len(re.findall(r"\d+", problem.question)) == len(
            re.findall(r"\d+", problem.expression)
        )


def rewards(task: Path, answers: list[str | None], folder: Path) -> list[str]:
    """What the verifier gives for each answer file; None for no file."""

    async def judge() -> list[str]:
        given: list[str] = []
        async with Sandbox(folder / "sandbox", isolation="process") as sandbox:
            await sandbox.upload(task / "tests", "/tests")
            for number, answer in enumerate(answers):
                await sandbox.exec("rm -f answer.txt")
                if answer is not None:
                    source = folder / f"{number}.txt"
                    source.write_bytes(answer.encode("utf-8", "surrogateescape"))
                    await sandbox.upload(source, "/app/answer.txt")
                await sandbox.exec(f"sh {sandbox.path('/tests/test.sh')}")
                shown = await sandbox.exec(f"cat {sandbox.path('/logs/verifier/reward.txt')}")
                given.append(shown.stdout.decode().strip())
        return given

    return asyncio.run(judge())


def test_the_last_number_of_the_answer_decides(tmp_path: Path):
    task = INTEGERS.tasks("official", tmp_path)[0]
    right = problems("official", 0, 1)[0].answer
    good = [f"{right}", f"It is {right}.\n", f"5*9 = {right}", f"1,000 or {right}.0", f"0{right}"]
    good += [f"9-{right}", f"\udcff {right}"]
    bad = [None, "", "none", f"{right + 1}", f"{right}.5", f"-{right}", f"{right}9", f"{right} 1"]
    bad += [f"{right},000", "9" * 40]
    given = rewards(task, [*good, *bad], tmp_path)
    assert given == ["1"] * len(good) + ["0"] * len(bad)


def test_the_solution_of_every_official_task_passes(tmp_path: Path):
    async def judge() -> list[str]:
        given: list[str] = []
        async with Sandbox(tmp_path / "sandbox", isolation="process") as sandbox:
            for task in INTEGERS.tasks("official", tmp_path / "tasks"):
                await sandbox.upload(task / "tests", "/tests")
                await sandbox.upload(task / "solution", "/solution")
                await sandbox.exec(f"sh {sandbox.path('/solution/solve.sh')}")
                await sandbox.exec(f"sh {sandbox.path('/tests/test.sh')}")
                shown = await sandbox.exec(f"cat {sandbox.path('/logs/verifier/reward.txt')}")
                given.append(shown.stdout.decode().strip())
        return given

    assert asyncio.run(judge()) == ["1"] * 40


def test_an_unknown_benchmark_is_refused_with_the_known_ones():
    with pytest.raises(OperatorError, match="Integers"):
        benchmarks.get("AIMEE")
