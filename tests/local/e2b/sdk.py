"""One test body for both APIs of the unmodified SDK.

A test is written for the synchronous API. For the asynchronous one the same names are handed out
behind `Blocking`, which runs what they return on a loop of its own. Where the two differ in more
than `await`, `api.name` tells them apart.
"""

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import e2b
import pytest

__all__ = ["Api", "Blocking", "Endpoint", "Loop", "api", "environment", "sandbox"]

_PATIENCE_S = 60.0


class Endpoint(NamedTuple):
    """Where the suite is run against."""

    api_url: str
    sandbox_url: str
    api_key: str


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def submit[T](self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        return self.submit(work).result(_PATIENCE_S * 2)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """An object of the asynchronous API, used like its counterpart of the other one."""

    def __init__(self, target: Any, loop: Loop):
        self._target, self._loop = target, loop

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(getattr(self._target, name))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        async def call() -> Any:
            result = self._target(*arguments, **named)
            return await result if inspect.isawaitable(result) else result

        return self._wrapped(self._loop.run(call()))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._loop.run(anext(self._target))
        except StopAsyncIteration:
            raise StopIteration from None

    def _wrapped(self, value: Any) -> Any:
        ours = (type(value).__module__ or "").startswith("e2b.sandbox_async")
        if ours or callable(value) or hasattr(value, "__anext__"):
            return Blocking(value, self._loop)
        return value


@dataclass(frozen=True)
class Api:
    """One of the two APIs.

    Attributes:
        name: Which.
        Sandbox: `e2b.Sandbox`, or `e2b.AsyncSandbox` in the same clothes.
    """

    name: Literal["sync", "async"]
    Sandbox: Any


@pytest.fixture(scope="session", params=["sync", "async"])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    if request.param == "sync":
        yield Api("sync", e2b.Sandbox)
        return
    loop = Loop()
    yield Api("async", Blocking(e2b.AsyncSandbox, loop))
    loop.close()


@pytest.fixture(autouse=True)
def environment(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables by which a user's own code would find the server."""
    monkeypatch.setenv("E2B_API_URL", endpoint.api_url)
    monkeypatch.setenv("E2B_SANDBOX_URL", endpoint.sandbox_url)
    monkeypatch.setenv("E2B_API_KEY", endpoint.api_key)


@pytest.fixture
def sandbox(api: Api) -> Iterator[Any]:
    """A sandbox of the test's own."""
    made = api.Sandbox.create(timeout=120)
    yield made
    made.kill()
