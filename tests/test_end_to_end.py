"""One whole episode with the real small model: a system is improved, and that is paid for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.smollm2
@pytest.mark.timeout(1200)
def test_the_scripted_researcher_improves_the_system_on_held_out_tasks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rsigym", "run", "RSIGym/Joint-Integers-v0"]
    options = ["--agent", "agents/scripted.py", "--sandbox", "auto", "--out", str(tmp_path)]
    size = ["--official-tasks", "12", "--attempts", "1", "--json"]
    done = subprocess.run(
        [*command, *options, *size], cwd=ROOT, stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == 0
    result = json.loads(done.stdout)
    (folder,) = tmp_path.iterdir()
    assert result == json.loads((folder / "result.json").read_text())

    assert result["rsi_index"] > 0
    outcome = result["benchmarks"]["Integers"]
    assert outcome["submitted"]["score"] > outcome["initial"]["score"] >= 0.05
    assert outcome["submitted"]["missing"] == outcome["initial"]["missing"] == 0
    assert [each["state"] for each in result["development"]] == ["done"] * 4

    spent = result["spent_by_service_usd"]
    assert spent.keys() == {"inference", "sandbox", "training"}
    assert sum(spent.values()) == pytest.approx(result["spent_usd"])
    assert 0 < result["spent_usd"] <= result["budget_usd"]
    assert result["overdraft_usd"] == 0

    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "experiment.json",
        "journal.jsonl",
        "ledger.sqlite",
        "records",
        "report.html",
        "result.json",
        "trajectory.json",
        "workspace",
    }
