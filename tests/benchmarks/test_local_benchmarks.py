"""What holds for every generated benchmark: its tasks are valid, apart by split, and fair."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsigym import benchmarks
from rsigym.benchmarks.tasks import Split, Task
from tests.benchmarks.judge import SOLVE, rewards

NAMES = benchmarks.names()
SPLITS: tuple[Split, Split] = ("development", "official")


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def generated(name: str, split: Split, seed: int = 0, count: int = 40) -> list[Task]:
    return benchmarks.get(name).generate(split, seed, count)


def grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z]{2,}", text.lower())
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def test_there_is_one_for_each_official_benchmark():
    stands_for = {name: benchmarks.get(name).stands_for for name in NAMES}
    assert stands_for == {
        "Integers": "AIME",
        "Shell": "TB2",
        "Choice": "GPQA",
        "Repair": "SWE",
        "Office": "Skills",
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", SPLITS)
def test_harbor_takes_every_task(name: str, split: Split, tmp_path: Path):
    from harbor.models.task.config import NetworkMode
    from harbor.models.task.task import Task

    benchmark = benchmarks.get(name)
    folders = benchmark.tasks(split, tmp_path)
    assert [folder.name for folder in folders] == [
        f"{name.lower()}-{split[:3]}-{number:03}" for number in range(40)
    ]
    for folder in folders:
        task = Task(folder)
        assert task.config.environment.network_mode == NetworkMode.NO_NETWORK
        assert task.config.agent.timeout_sec == benchmark.agent_timeout_s
        assert "__" not in str(folder.relative_to(tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_tasks_are_the_same_whoever_makes_them(name: str, tmp_path: Path):
    for cache in ("first", "second"):
        for split in SPLITS:
            benchmarks.get(name).tasks(split, tmp_path / cache)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", SPLITS)
def test_more_tasks_begin_with_the_fewer_and_differ(name: str, split: Split):
    hundred = generated(name, split, 3, 100)
    assert hundred[:40] == generated(name, split, 3)
    assert len({task.instruction for task in hundred}) == 100


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_is_other_tasks_in_another_folder(name: str, tmp_path: Path):
    benchmark = benchmarks.get(name)
    others = [replace(benchmark, seed=seed).tasks("official", tmp_path)[0] for seed in (0, 1)]
    assert others[0].parent != others[1].parent
    first, second = ({task.instruction for task in generated(name, "official", s)} for s in (0, 1))
    assert len(first & second) < 20


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5)
@given(seed=st.integers(0, 1000))
def test_splits_share_no_instruction_and_no_long_phrase(name: str, seed: int):
    development = {g for task in generated(name, "development", seed) for g in _phrases(task)}
    for task in generated(name, "official", seed):
        assert not _phrases(task) & development


def _phrases(task: Task) -> set[tuple[str, ...]]:
    """Twelve words in a row of what is asked, which comes last but for what is told there: not the
    form of all answers, and not a program, whose pieces are everyone's."""
    return grams(task.instruction.rpartition("\n\n")[2], 12)


@pytest.mark.parametrize("name", NAMES)
def test_only_tests_and_solution_hold_what_is_hidden(name: str, tmp_path: Path):
    for folder in benchmarks.get(name).tasks("official", tmp_path):
        shown = {path for path in contents(folder) if not path.startswith(("tests/", "solution/"))}
        shown -= {path for path in shown if path.startswith("environment/app/")}
        assert shown == {"environment/Dockerfile", "instruction.md", "task.toml"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", SPLITS)
def test_solutions_pass_and_doing_nothing_does_not(name: str, split: Split, tmp_path: Path):
    tasks = benchmarks.get(name).tasks(split, tmp_path / "tasks")[::9]
    assert rewards([(task, SOLVE) for task in tasks], tmp_path) == ["1"] * len(tasks)
    assert rewards([(task, "true") for task in tasks], tmp_path) == ["0"] * len(tasks)


@pytest.mark.parametrize("name", NAMES)
def test_no_answer_but_an_answer_is_right(name: str, tmp_path: Path):
    """Empty, someone else's, words about it, and a reward of one's own."""
    task, other = benchmarks.get(name).tasks("official", tmp_path / "tasks")[:2]
    answer = re.search(r", in ([\w.]+)\.\n", (task / "instruction.md").read_text())
    file = answer[1] if answer else "answer.txt"
    works = [
        f": > {file}",
        f"echo 'I have done it.' > {file}",
        f"rm -rf {file}; ln -s /dev/null {file}",
        f"rm -rf {file}; mkfifo {file}",
        f"rm -rf {file}; mkdir {file}",
        f"head -c 2000000 /dev/zero > {file}",
        "echo 1 > reward.txt; echo 1 > ../logs/verifier/reward.txt",
    ]
    assert rewards([(task, work) for work in works], tmp_path) == ["0"] * len(works)
    assert other != task


@pytest.mark.parametrize("name", NAMES)
def test_the_form_of_an_answer_comes_first(name: str):
    for task in (*generated(name, "development"), *generated(name, "official")):
        first, empty, *_ = task.instruction.splitlines()
        assert first.startswith("Answer with ")
        assert first.endswith(".")
        assert not empty
