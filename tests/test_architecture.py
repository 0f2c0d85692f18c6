"""Arrows run one way: each room imports only from the rooms that ARCHITECTURE.md puts below it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rsigym"

MAY_IMPORT = {
    "operations": set[str](),
    "platform": {"operations"},
    "spaces": {"operations", "platform"},
    "services": {"operations", "platform", "spaces"},
    "local": {"operations", "platform", "spaces"},
    "benchmarks": {"operations", "platform", "spaces"},
    "flat": {"operations", "platform"},
    "sim": {"operations", "platform", "spaces", "services", "benchmarks", "flat"},
    "envs": {"operations", "platform", "spaces", "services", "local", "sim", "benchmarks", "flat"},
    "gateway": {"operations", "platform", "spaces", "services", "envs"},
    "wrappers": {"operations", "platform", "spaces", "envs", "flat"},
    "report": {"operations", "platform", "services", "envs"},
    "testing": {"operations", "platform", "spaces"},
    "commands": {"operations", "platform", "services", "local", "benchmarks", "envs", "gateway"}
    | {"report"},
}
HEAVY = {"torch", "transformers", "tinker", "harbor", "fastapi", "uvicorn", "litellm", "rich"} | {
    "sqlalchemy",
    "psycopg",
    "e2b",
    "httpx",
    "starlette",
}


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "rsigym" and len(parts) > 1 else None


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


@pytest.mark.parametrize("name", sorted(MAY_IMPORT))
def test_a_room_imports_only_from_rooms_below_it(name: str) -> None:
    for file in (PACKAGE / name).rglob("*.py"):
        rooms = {found for module in imports(file) if (found := room(module))}
        wrong = rooms - MAY_IMPORT[name] - {name}
        assert not wrong, f"{file.relative_to(ROOT)} imports from {wrong}"


def test_every_room_is_known() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms <= MAY_IMPORT.keys()


def test_the_page_draws_the_same_arrows() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = {
        name: set(re.findall(r"`(\w+)`", below))
        for name, below in re.findall(r"^\| `(\w+)` \|.*\| ([^|]*)\|$", page, re.MULTILINE)
    }
    assert drawn == MAY_IMPORT


def test_the_page_names_files_that_are_there() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.(?:py|json))`", page))
    there = [f"/{file.relative_to(ROOT).as_posix()}" for file in ROOT.glob("[arst]*/**/*")]
    assert [each for each in named if not any(file.endswith(f"/{each}") for file in there)] == []


def test_importing_rsigym_needs_only_the_base_packages() -> None:
    script = (
        "import sys, rsigym, rsigym.cli\n"
        f"print(*sorted({HEAVY!r} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []
