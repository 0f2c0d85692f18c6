"""The code on the pages about the simulator and about testing runs as it is written."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def code_of(page: str, file: Path) -> Path:
    """All Python of a page, in one file."""
    text = (DOCS / page).read_text(encoding="utf-8")
    file.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    return file


def test_the_page_about_the_simulator(tmp_path: Path) -> None:
    script = code_of("simulator.md", tmp_path / "page.py")
    subprocess.run([sys.executable, script], check=True, timeout=300)


def test_the_page_about_testing(tmp_path: Path) -> None:
    tests = code_of("testing.md", tmp_path / "test_page.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    assert "11 passed" in done.stdout
