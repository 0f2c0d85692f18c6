"""`env.step` wherever it is called from: running loops, threads, a notebook, beside 999 others."""

import ast
import asyncio
import inspect
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np

import rsigym
from rsigym.platform.outcome import Status
from rsigym.testing import Subject
from rsigym.testing.trees import difference

assert rsigym

SIM = "RSIGym/Integers-Sim-v0"

STEPS = 30


def walked(seed: int) -> list[Any]:
    """An episode of random actions: everything that it returned."""
    subject = Subject(lambda: gym.make(SIM), steps=STEPS, seed=seed)
    return [[*step] for step in subject.walk()]


def test_inside_a_running_event_loop() -> None:
    async def research() -> list[Any]:
        await asyncio.sleep(0)
        return walked(seed=1)

    assert difference(walked(seed=1), asyncio.run(research())) is None


def test_in_tasks_that_take_turns() -> None:
    async def research(env: gym.Env[Any, Any], seed: int) -> list[Any]:
        env.action_space.seed(seed)
        _, info = env.reset(seed=seed)
        seen: list[Any] = []
        for _ in range(STEPS):
            seen.append(env.step(env.action_space.sample(mask=info["action_mask"])))
            info = seen[-1][4]
            await asyncio.sleep(0)
        return seen

    async def both() -> list[list[Any]]:
        return await asyncio.gather(*(research(gym.make(SIM), seed=3) for _ in range(2)))

    first, second = asyncio.run(both())
    assert difference(first, second) is None


def test_in_many_threads_an_env_each() -> None:
    alone = [walked(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(walked, range(4)))
    assert difference(alone, together) is None


def test_one_env_by_many_threads_counts_every_call_and_overspends_nothing() -> None:
    env = gym.make(SIM, budget_usd=0.01)
    env.reset(seed=0)
    chat = {
        "op": "inference.chat",
        "args": {
            "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
            "messages": [{"role": "user", "content": "hello"}],
        },
    }
    start, records = threading.Barrier(4), list[str]()

    def call() -> None:
        start.wait()
        for _ in range(25):
            observation, *_, info = env.step(chat)
            records.append(info["record"])
            total, spent, held = observation["budget"]
            assert spent + held <= total
            assert observation["status"] in (Status.OK, Status.UNAFFORDABLE)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(call) for _ in range(4)]:
            done.result()
    assert sorted(records) == [f"{number:06d}" for number in range(1, 101)]
    env.close()


CELLS = (
    "observation, info = env.reset(seed=0)",
    "ticks = asyncio.create_task(ticking())",
    "answer = env.step({'op': 'workspace.list', 'args': {}})",
    "await asyncio.sleep(0)",
    "answer = [env.step({'op': 'workspace.list', 'args': {}}) for _ in range(2)][-1]",
    "observation, info = await asyncio.to_thread(env.reset, seed=0)",
    "again = [env.step({'op': 'workspace.list', 'args': {}}) for _ in range(3)][-1]",
    "ticks.cancel()",
    "env.close(); env.close()",
)


def test_cell_by_cell_as_in_a_notebook() -> None:
    """One loop runs all the time, each cell is awaited in it, as ipykernel does, and others of the
    user's tasks go on beside them; the env lives between the cells.
    """
    ticked: list[int] = []

    async def ticking() -> None:
        while True:
            ticked.append(len(ticked))
            await asyncio.sleep(0)

    async def notebook() -> dict[str, Any]:
        names: dict[str, Any] = {"env": gym.make(SIM), "asyncio": asyncio, "ticking": ticking}
        for cell in CELLS:
            code = compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            ran = eval(code, names)
            if inspect.isawaitable(ran):
                await ran
        return names

    names = asyncio.run(notebook())
    assert ticked
    assert difference(names["answer"], names["again"]) is None


def test_a_thousand_envs_in_one_process() -> None:
    """They are open at once, with no thread, file or socket of their own."""
    threads, files = {*threading.enumerate()}, open_files()
    envs = [gym.make(SIM) for _ in range(1000)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    for env in envs:
        env.step({"op": "workspace.write", "args": {"path": "notes.md", "content": "x"}})
    listed = [env.step({"op": "workspace.list", "args": {}})[0] for env in envs]
    assert {observation["status"].item() for observation in listed} == {Status.OK}
    assert all(np.array_equal(it["step"], [2]) for it in listed)
    # What others of this process had open may have been closed meanwhile.
    assert {*threading.enumerate()} <= threads
    assert open_files() <= files
    for env in envs:
        env.close()


def open_files() -> set[str]:
    """The descriptors of this process, where the system shows them."""
    return {*os.listdir("/proc/self/fd")} if os.path.isdir("/proc/self/fd") else set()
