"""`Shell`: requests by operation, and a verifier that looks at the directory."""

from pathlib import Path

import pytest

from rsigym import benchmarks
from rsigym.benchmarks.data import table
from rsigym.benchmarks.shell import MAX_REQUESTS, OPERATIONS, requests
from rsigym.benchmarks.tasks import Split
from tests.benchmarks.judge import rewards

SPLITS: tuple[Split, Split] = ("development", "official")


def test_splits_share_operations_and_nothing_else():
    development, official = (table("shell")[split] for split in SPLITS)
    assert development["requests"].keys() == official["requests"].keys() == OPERATIONS.keys()
    for part in ("files", "new_files", "folders", "words"):
        assert not {*development[part]} & {*official[part]}, part
    assert not {*map(tuple, development["pairs"])} & {*map(tuple, official["pairs"])}
    wordings = [
        {w for each in t["requests"].values() for w in each} for t in (development, official)
    ]
    assert not wordings[0] & wordings[1]


@pytest.mark.parametrize("split", SPLITS)
def test_every_third_request_has_two_operations(split: Split):
    numbers = [len(request.operations) for request in requests(split, 0, 39)]
    assert numbers == [1, 1, 2] * 13
    assert {name for request in requests(split, 0, 40) for name in request.operations} == {
        *OPERATIONS
    }


@pytest.mark.parametrize("split", SPLITS)
def test_there_are_as_many_requests_as_promised(split: Split):
    assert len({request.text for request in requests(split, 5, MAX_REQUESTS)}) == MAX_REQUESTS
    with pytest.raises(ValueError, match="at most 150"):
        requests(split, 5, MAX_REQUESTS + 1)


def test_the_state_decides_and_not_how_it_came_about(tmp_path: Path):
    shell = benchmarks.get("Shell")
    number, request = next(
        (number, request)
        for number, request in enumerate(requests("official", 0, 40))
        if request.operations == ("mv",)
    )
    task = shell.tasks("official", tmp_path / "tasks")[number]
    _, old, new = request.commands.split()
    good = [
        f"mv {old} {new}",
        f"cat {old} > {new} && rm {old}",
        f"mv {old} {new}; echo Done. > answer.txt",
        f"mv {old} {new}; printf '\n' >> {new}",
    ]
    bad = [
        f"cp {old} {new}",
        f"mv {old} {old}.bak; ln -s {old}.bak {new}",
        f"mv {old} {new}; rm -f [a-m]*.txt [o-z]*.txt; touch {new}",
        f"echo x >> {old}; mv {old} {new}",
    ]
    assert rewards([(task, work) for work in (*good, *bad)], tmp_path) == [
        *["1"] * len(good),
        *["0"] * len(bad),
    ]
