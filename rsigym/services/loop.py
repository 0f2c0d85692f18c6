"""One asyncio loop in a thread of its own, for the asynchronous work of synchronous services.

Services are called from any thread, also from inside somebody's running event loop, where
`asyncio.run` is not allowed. They hand their coroutines to this loop instead.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

__all__ = ["BackgroundLoop"]


class BackgroundLoop:
    """An event loop that starts when it is first used. Safe from any thread but its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit[T](self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop; cancelling the future cancels it."""
        try:
            loop = self._started()
        except RuntimeError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop)

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, waited for. Ctrl-C while waiting cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what is running, wait until it has ended, and stop. Twice is fine."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError("the background loop is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="rsigym-loop", daemon=True
                )
                self._thread.start()
            return self._loop


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
