"""Having a task's own tests judge what was done in its working directory."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rsigym.local.sandbox import Sandbox

__all__ = ["SOLVE", "Work", "rewards"]

type Work = tuple[Path, str]
"""A task folder, and the shell commands that stand for an agent's work on it."""

SOLVE = "sh {solve}"
"""Commands that are the task's own solution."""


def rewards(works: Sequence[Work], folder: Path) -> list[str]:
    """The reward of each work, done and judged in a sandbox of plain processes below `folder`."""

    async def judge() -> list[str]:
        given: list[str] = []
        async with Sandbox(folder / "sandbox", isolation="process") as sandbox:
            for task, commands in works:
                given.append(await _judge(sandbox, task, commands))
        return given

    return asyncio.run(judge())


async def _judge(sandbox: Sandbox, task: Path, commands: str) -> str:
    place = {name: sandbox.path(f"/{name}") for name in ("app", "tests", "solution")}
    reward = sandbox.path("/logs/verifier/reward.txt")
    await sandbox.exec(f"find {' '.join(place.values())} -mindepth 1 -delete; rm -f {reward}")
    if (task / "environment" / "app").is_dir():
        await sandbox.upload(task / "environment" / "app", "/app")
    await sandbox.upload(task / "solution", "/solution")
    await sandbox.exec(commands.replace("{solve}", f"{place['solution']}/solve.sh"))
    await sandbox.upload(task / "tests", "/tests")
    await sandbox.exec(f"sh {place['tests']}/test.sh")
    shown = await sandbox.exec(f"cat {reward}")
    return shown.stdout.decode().strip()
