"""The table of `rewards.py`, cell by cell: what a verifier wrote, through Harbor, to the reward."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from rsigym.services.rewards import UnreadableReward, read_reward
from rsigym.services.trial_records import TrialRecord
from rsigym.services.trials import run_trial
from tests.services.trial_bench import TrialBench, serve

TXT: Final[list[tuple[str, float | None]]] = [
    ("0.25", 0.25),
    (" 1e-1\n", 0.1),
    ("", None),
    ("true", None),
    ("passed", None),
    ("nan", None),
    ("inf", None),
    ("1 0", None),
    ("2", None),
    ("-1", None),
]
JSON: Final[list[tuple[str, float | None]]] = [
    ('{"reward": 0.5}', 0.5),
    ('{"style": 0, "reward": 0.5, "lines": 300}', 0.5),
    ('{"tests": 0.75}', 0.75),
    ('{"tests": 1, "style": 1}', None),
    ("{}", None),
    ('{"reward": true}', 1.0),
    ('{"reward": false}', 0.0),
    ('{"reward": "1"}', None),
    ('{"reward": null}', None),
    ('{"reward": [1]}', None),
    ('{"reward": {"tests": 1}}', None),
    ('{"reward": 1, "parts": {"a": 1}}', None),
    ('{"reward": NaN}', None),
    ('{"reward": Infinity}', None),
    ('{"reward": 1e999}', None),
    ('{"reward": 1.5}', None),
    ('{"reward": -0.5}', None),
    (f'{{"reward": 1{"0" * 400}}}', None),
    ("1", None),
    ('"1"', None),
    ("[1]", None),
    ("null", None),
    ("{", None),
    ("\\xff", None),
    ("", None),
]
CELLS: Final = {
    **{("reward.txt", text): reward for text, reward in TXT},
    **{("reward.json", text): reward for text, reward in JSON},
}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], TrialRecord]:
    """A trial for each cell, side by side."""
    with pytest.MonkeyPatch.context() as patch:
        bench = TrialBench.open(tmp_path_factory.mktemp("rewards"), patch, "auto")
        harness = bench.harness("true")
        specs = [
            bench.spec(bench.task(f"t{n}", grade=_writes(*cell)), harness, f"t{n}")
            for n, cell in enumerate(CELLS)
        ]

        async def evaluate() -> list[TrialRecord]:
            slots = asyncio.Semaphore(4)

            async def one(n: int) -> TrialRecord:
                async with slots:
                    return await run_trial(specs[n], serve)

            return await asyncio.gather(*map(one, range(len(specs))))

        return dict(zip(CELLS, asyncio.run(evaluate()), strict=True))


def _writes(name: str, text: str) -> str:
    return f"printf '{text}' > /logs/verifier/{name}\n"


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell[0]}:{cell[1][:40]!r}")
def test_what_a_verifier_writes_comes_to(
    records: dict[tuple[str, str], TrialRecord], cell: tuple[str, str]
) -> None:
    record = records[cell]
    assert record.reward == CELLS[cell]
    assert (record.error is None) == (record.reward is not None)
    if record.error is not None:
        assert record.error.side == "verifier"
        assert not record.lost


def test_json_counts_where_both_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = TrialBench.open(tmp_path, monkeypatch, "auto")
    both = _writes("reward.txt", "1") + _writes("reward.json", '{"reward": 0}')
    assert bench.run("true", task=bench.task(grade=both)).reward == 0.0


def test_the_error_names_what_was_written() -> None:
    with pytest.raises(UnreadableReward, match='"reward", not a, b'):
        read_reward({"b": 1.0, "a": 1.0})
    with pytest.raises(UnreadableReward, match="not nothing"):
        read_reward({})
