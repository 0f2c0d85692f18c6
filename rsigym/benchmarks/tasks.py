"""Harbor task folders: what is in one, and how a set of them is written once and then found."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Task", "materialise"]

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


@dataclass(frozen=True)
class Task:
    """One Harbor task.

    Attributes:
        name: The folder's name; no `__`, which Harbor splits names at.
        instruction: What the agent reads.
        test: `tests/test.sh`; uploaded when the agent has ended, it writes the reward.
        solution: `solution/solve.sh`, which does the task.
    """

    name: str
    instruction: str
    test: str
    solution: str

    def files(self, timeout_s: float) -> Mapping[str, str]:
        """The text of every file by its path in the folder."""
        return {
            "task.toml": _TASK_TOML.format(timeout_s=float(timeout_s)),
            "instruction.md": self.instruction,
            "environment/Dockerfile": _DOCKERFILE,
            "tests/test.sh": self.test,
            "solution/solve.sh": self.solution,
        }


def materialise(tasks: Sequence[Task], name: str, timeout_s: float, cache: Path) -> list[Path]:
    """The folders of `tasks`, in order, below `cache`; written unless they are there.

    The parent folder is named after `name` and a hash of everything in it and appears complete or
    not at all, so processes may do this at once and other versions stay what they were.
    """
    contents = {task.name: task.files(timeout_s) for task in tasks}
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
