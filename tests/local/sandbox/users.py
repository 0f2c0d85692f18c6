"""Running a test as whoever runs the tests, and once more as a user who is not root."""

import asyncio
import inspect
import os
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from rsigym.local.sandbox import archive, bubblewrap, cgroups, interpreter

__all__ = ["by_both_users"]

NOBODY = 65534
_TEST_S = 120


def by_both_users(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes an async test, which takes a `folder`, into two where the tests are run by root."""

    @pytest.mark.usefixtures("bubblewrap")
    @pytest.mark.parametrize("user", [os.geteuid(), NOBODY] if os.geteuid() == 0 else [None])
    def run(user: int | None, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        folder: Path = given["folder"]
        monkeypatch.setenv("RSIGYM_HOME", str(folder / "home"))
        if user != NOBODY:
            asyncio.run(test(**given))
            return
        os.chown(folder, NOBODY, NOBODY)
        child = os.fork()  # not a new process: nobody may not read what this one has imported
        if child == 0:
            os._exit(_as_nobody(test(**given), folder))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, (folder / "error").read_text()

    own = [each for each in inspect.signature(run).parameters.values() if each.name != "given"]
    names = [*inspect.signature(test).parameters.values(), *own]
    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    run.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in names]
    )
    return run


def _as_nobody(test: Coroutine[Any, Any, None], folder: Path) -> int:
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        for found_by_root in (
            archive.supervisor_archive,
            bubblewrap.find_bubblewrap,
            interpreter.choose_interpreter,
            cgroups._parents,  # pyright: ignore[reportPrivateUsage]
        ):
            found_by_root.cache_clear()
        asyncio.run(asyncio.wait_for(test, _TEST_S))
    except BaseException:  # noqa: BLE001 -- whatever it is, the parent reports it
        (folder / "error").write_text(traceback.format_exc())
        return 1
    return 0
