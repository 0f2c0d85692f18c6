"""The sandboxes of a server: made within its bounds, found, paused, resumed and ended."""

import asyncio
import itertools
import secrets
from collections.abc import Coroutine, Iterator
from typing import Any

from rsigym.local.e2b.bodies import Connect, Network, NewSandbox
from rsigym.local.e2b.envd import Envd
from rsigym.local.e2b.errors import ApiError
from rsigym.local.e2b.live import LiveSandbox, new_id
from rsigym.local.e2b.make import Maker
from rsigym.local.e2b.settings import Settings
from rsigym.platform.errors import OperatorError, ServiceFailure

__all__ = ["Sandboxes"]


class Sandboxes:
    """All sandboxes of one server, by id."""

    def __init__(self, settings: Settings, maker: Maker):
        self._settings, self._maker = settings, maker
        self._live: dict[str, LiveSandbox] = {}
        self._starting = 0
        self._numbers = itertools.count(1)
        self._by_key: dict[str, asyncio.Task[LiveSandbox]] = {}
        self._background: set[asyncio.Task[Any]] = set()

    def __iter__(self) -> Iterator[LiveSandbox]:
        return iter(list(self._live.values()))

    def find(self, sandbox_id: str) -> LiveSandbox:
        """
        Raises:
            ApiError: 404.
        """
        live = self._live.get(sandbox_id)
        if live is None:
            raise ApiError(404, f"sandbox {sandbox_id!r} not found")
        return live

    async def running(self, sandbox_id: str | None) -> LiveSandbox:
        """The sandbox that a request of the data plane is for; resumed, if it may be.

        Raises:
            ApiError: 502, in the words by which the SDK knows that the sandbox is gone or paused.
        """
        live = self._live.get(sandbox_id or "")
        if live is not None and live.state == "paused" and live.auto_resumes:
            await self.connect(live, Connect())
        if live is None or live.state == "paused":
            raise ApiError(502, f"The sandbox {sandbox_id} was not found")
        return live

    async def create(self, wanted: NewSandbox, key: str | None) -> LiveSandbox:
        """Makes a sandbox, or answers with the one that was made for this idempotency key.

        Raises:
            ApiError: It is refused, or does not start.
        """
        if key is None:
            return await self._create(wanted)
        making = self._by_key.get(key)
        if making is None or (making.done() and making.exception() is not None):
            making = self._by_key[key] = self._start(self._create(wanted))
        return await asyncio.shield(making)

    async def connect(self, live: LiveSandbox, wanted: Connect) -> bool:
        """Lets it live at least this long from now; whether it was paused and is resumed."""
        self._check_timeout(wanted.timeout)
        async with live.lock:
            self.find(live.id)  # it may have ended meanwhile
            resumed = live.state == "paused"
            if resumed:
                if not wanted.memory:
                    await live.envd.sandbox.kill_all()
                await live.envd.resume()
                live.state = "running"
            if resumed or wanted.timeout > live.seconds_left():
                self._end_in(live, wanted.timeout)
        return resumed

    async def pause(self, live: LiveSandbox, *, memory: bool) -> None:
        """Stops it and its time.

        Raises:
            ApiError: 409: it is paused.
        """
        async with live.lock:
            self.find(live.id)
            if live.state == "paused":
                raise ApiError(409, f"sandbox {live.id!r} is paused")
            live.stop_timer()
            live.state = "paused"
            if not memory:
                await live.envd.sandbox.kill_all()
            await live.envd.pause()

    async def set_network(self, live: LiveSandbox, network: Network) -> None:
        """
        Raises:
            ApiError: It asks for what is not built.
        """
        network.check()
        await self._maker.set_network(live.envd.sandbox, network)

    def set_timeout(self, live: LiveSandbox, seconds: int) -> None:
        """
        Raises:
            ApiError: 400: it is too long. 409: it is paused, and has no time that runs.
        """
        self._check_timeout(seconds)
        if live.state == "paused":
            raise ApiError(409, f"sandbox {live.id!r} is paused")
        self._end_in(live, seconds)

    async def kill(self, live: LiveSandbox, why: str = "it was killed") -> None:
        """Ends it; answers once nothing of it is left."""
        if self._live.pop(live.id, None) is None:
            return
        live.stop_timer()
        for key, making in list(self._by_key.items()):
            if making.done() and (making.exception() or making.result() is live):
                del self._by_key[key]
        async with live.lock:
            await live.envd.close(f"the sandbox {live.id} ended: {why}")

    async def close(self) -> None:
        """Ends all of them."""
        await asyncio.gather(*(self.kill(live, "the server ends") for live in self))

    async def _create(self, wanted: NewSandbox) -> LiveSandbox:
        wanted.check()
        self._check_timeout(wanted.timeout)
        most = self._settings.max_sandboxes
        if len(self._live) + self._starting >= most:
            raise ApiError(429, f"there are {most} sandboxes already, and no more at once")
        self._starting += 1  # before anything is awaited: others are being made meanwhile
        try:
            sandbox = await self._maker.make(wanted.template, wanted.wanted_network)
        except (OperatorError, ServiceFailure) as failure:
            raise ApiError(500, f"the sandbox did not start: {failure}") from failure
        finally:
            self._starting -= 1
        sandbox_id = new_id()
        named = {
            "E2B_SANDBOX": "true",
            "E2B_SANDBOX_ID": sandbox_id,
            "E2B_TEMPLATE_ID": wanted.template,
        }
        envd = Envd(sandbox, secrets.token_hex(32), {**named, **wanted.envs})
        live = LiveSandbox(sandbox_id, next(self._numbers), wanted, envd)
        self._live[live.id] = live
        self._end_in(live, wanted.timeout)
        self._start(self._notice_end(live))
        return live

    async def _notice_end(self, live: LiveSandbox) -> None:
        """A sandbox can end by itself: its supervisor may be killed for want of memory."""
        await self.kill(live, await live.envd.sandbox.ended())

    def _end_in(self, live: LiveSandbox, seconds: int) -> None:
        live.end_in(seconds, lambda: self._start(self._time_is_up(live)))

    async def _time_is_up(self, live: LiveSandbox) -> None:
        if live.state == "paused":
            return  # just before
        if live.wanted.auto_pause:
            await self.pause(live, memory=live.wanted.auto_pause_memory)
        else:
            await self.kill(live, "its time was up")

    def _check_timeout(self, seconds: int) -> None:
        most = self._settings.max_timeout_s
        if seconds > most:
            raise ApiError(400, f"timeout must be at most {most} s, not {seconds}")

    def _start[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task
