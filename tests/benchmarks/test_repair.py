"""`Repair`: bugs that tests find, and a verifier that runs an agent's function safely."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsigym import benchmarks
from rsigym.benchmarks.data import table
from rsigym.benchmarks.mutants import mutants, shape
from rsigym.benchmarks.repair import MAX_BUGS, bugs, value
from rsigym.benchmarks.tasks import Split
from tests.benchmarks.judge import rewards

REPAIR = benchmarks.get("Repair")
SPLITS: tuple[Split, Split] = ("development", "official")


def test_splits_share_no_function_whatever_its_names():
    functions = [table("repair")[split]["functions"] for split in SPLITS]
    assert not functions[0].keys() & functions[1].keys()
    shapes = [{shape(*function) for function in each.values()} for each in functions]
    assert not shapes[0] & shapes[1]
    reports = [{*table("repair")[split]["reports"]} for split in SPLITS]
    assert not reports[0] & reports[1]


def test_a_shape_is_what_is_left_without_names():
    assert shape("a, b", "a + b * 2") == shape("x, y", "x + y * 2")
    assert shape("a, b", "a + b") != shape("a, b", "b + a")


@settings(max_examples=5)
@given(seed=st.integers(0, 1000), split=st.sampled_from(SPLITS))
def test_a_bug_fails_its_test_and_a_hidden_case(seed: int, split: Split):
    for bug in bugs(split, seed, 40):
        (arguments, right), _ = bug.visible
        assert value(bug.parameters, bug.broken, arguments) != right
        assert any(value(bug.parameters, bug.broken, a) != right for a, right in bug.hidden)
        cases = (*bug.visible, *bug.hidden)
        assert all(value(bug.parameters, bug.expression, a) == right for a, right in cases)
        assert any(right != bug.visible[0][1] for _, right in cases), "a constant passes"


@pytest.mark.parametrize("split", SPLITS)
def test_there_are_as_many_bugs_as_promised(split: Split):
    found = bugs(split, 5, MAX_BUGS)
    assert len({(bug.name, bug.broken) for bug in found}) == MAX_BUGS
    with pytest.raises(ValueError, match="at most 100"):
        bugs(split, 5, MAX_BUGS + 1)


def test_mutants_change_one_thing_and_are_expressions():
    found = mutants("max(a, b) + 2")
    assert {"min(a, b) + 2", "max(a, b) - 2", "max(a, b) + 3", "2 + max(a, b)"} <= {*found}
    assert "max(a, b) + 2" not in found


def test_any_plain_function_that_is_right_passes_and_no_other_runs(tmp_path: Path):
    number, bug = next(
        (number, bug)
        for number, bug in enumerate(bugs("official", 0, 40))
        if bug.name == "sum_of_three"
    )
    task = REPAIR.tasks("official", tmp_path / "tasks")[number]
    head = "def sum_of_three(a, b, c):\n"
    reward = "/logs/verifier/reward.txt"
    good = [
        f"{head}    return sum([a, b, c])\n",
        f"# fixed\n{head}    '''Adds.'''\n    total = a\n    total += b\n    return total + c\n",
        "def sum_of_three(a: int, b: int, c: int) -> int:\n    return c + b + a\n",
    ]
    bad = [
        bug.source(bug.broken),
        f"{head}    return {bug.visible[0][1]}\n",
        f"import os\n{head}    return a + b + c\n",
        f"{head}    open('{reward}', 'w').write('1')\n    return a + b + c\n",
        f"{head}    return a.__class__\n",
        f"{head}    return (x for x in [1]).gi_frame\n",
        f"{head}    while True:\n        a += 1\n",
        "def sum_of_three(a, b, c=9 ** 9 ** 9 ** 9):\n    return a + b + c\n",
        f"{head}    return a +\n",
        "(" * 5000,
        f"@print\n{head}    return a + b + c\n",
        "class sum_of_three(int):\n    pass\n",
    ]
    works = [(task, f"cat > sum_of_three.py <<'END'\n{source}END") for source in (*good, *bad)]
    assert rewards(works, tmp_path) == ["1"] * len(good) + ["0"] * len(bad)


def test_a_link_to_what_is_right_is_not_an_answer(tmp_path: Path):
    task = REPAIR.tasks("official", tmp_path / "tasks")[0]
    name = bugs("official", 0, 1)[0].name
    work = f"sh {{solve}}; mv {name}.py other.py; ln -s other.py {name}.py"
    assert rewards([(task, work)], tmp_path) == ["0"]
