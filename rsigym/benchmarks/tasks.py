"""Harbor task folders: what is in one, and how a set of them is written once and then found."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["Split", "Task", "checked_by", "materialise"]

type Split = Literal["development", "official"]

_TASK_TOML = """\
schema_version = "1.4"

[agent]
timeout_sec = {timeout_s}

[verifier]
timeout_sec = 30.0

[environment]
network_mode = "no-network"
cpus = 1
memory_mb = 512
"""

_DOCKERFILE = """\
FROM python:3.12-slim
WORKDIR /app
"""

# Of Python's search path only /tests and the standard library are left, never what an agent made.
_CHECK = """\
#!/bin/sh
exec python3 -EsS /tests/check.py
"""
_CHECKS = Path(__file__).with_name("checks")


@dataclass(frozen=True)
class Task:
    """One Harbor task.

    Attributes:
        name: The folder's name; no `__`, which Harbor splits names at.
        instruction: What the agent reads.
        test: `tests/test.sh`; uploaded when the agent has ended, it writes the reward.
        solution: `solution/solve.sh`, which does the task.
        files: What lies in the working directory at first, by path in it.
        test_files: What `test` needs, by path in `tests/`; uploaded with it.
    """

    name: str
    instruction: str
    test: str
    solution: str
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    test_files: Mapping[str, str] = field(default_factory=dict[str, str])

    def folder(self, timeout_s: float) -> Mapping[str, str]:
        """The text of every file by its path in the folder."""
        return {
            "task.toml": _TASK_TOML.format(timeout_s=float(timeout_s)),
            "instruction.md": self.instruction,
            "environment/Dockerfile": _DOCKERFILE + ("COPY app/ ./\n" if self.files else ""),
            **{f"environment/app/{path}": text for path, text in self.files.items()},
            "tests/test.sh": self.test,
            **{f"tests/{path}": text for path, text in self.test_files.items()},
            "solution/solve.sh": self.solution,
        }


def checked_by(check: str, expected: object) -> dict[str, Any]:
    """The fields `test` and `test_files` of a task that a program in `checks/` decides.

    Args:
        check: The program's name, without `.py`.
        expected: What it is to find, JSON-able.
    """
    program = (_CHECKS / f"{check}.py").read_text(encoding="utf-8")
    common = (_CHECKS / "reward.py").read_text(encoding="utf-8")
    return {
        "test": _CHECK,
        "test_files": {
            "check.py": program,
            "reward.py": common,
            "expected.json": json.dumps(expected, indent=1) + "\n",
        },
    }


def materialise(tasks: Sequence[Task], name: str, timeout_s: float, cache: Path) -> list[Path]:
    """The folders of `tasks`, in order, below `cache`; written unless they are there.

    The parent folder is named after `name` and a hash of everything in it and appears complete or
    not at all, so processes may do this at once and other versions stay what they were.
    """
    contents = {task.name: task.folder(timeout_s) for task in tasks}
    digest = hashlib.sha256(repr(contents).encode()).hexdigest()
    folder = cache / f"{name}-{digest[:16]}"
    if not folder.exists():
        _write_at_once(contents, folder)
    return [folder / task.name for task in tasks]


def _write_at_once(contents: Mapping[str, Mapping[str, str]], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        for name, files in contents.items():
            for path, text in files.items():
                target = draft / name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8", newline="\n")
                target.chmod(0o755 if target.suffix == ".sh" else 0o644)
        draft.chmod(0o755)
        os.rename(draft, folder)
    except OSError:
        # Another process was faster if the folder is there now.
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
