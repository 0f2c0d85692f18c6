"""The channel to a supervisor, where one side has given up."""

import asyncio
import os
import resource
import socket
from typing import Any

import pytest

from rsigym.local.sandbox.channel import Channel
from rsigym.local.sandbox.inside.messages import INLINE_BYTES, send


def test_a_first_word_that_comes_after_the_start_was_given_up_troubles_nobody() -> None:
    troubles: list[dict[str, Any]] = []

    async def give_up_and_go_on() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: troubles.append(context))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel = Channel(ours, lambda: "it was told to")
        with theirs:
            starting = asyncio.create_task(channel.ready())
            await asyncio.sleep(0)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            send(theirs, {"ready": os.getpid()})
            asked = asyncio.create_task(channel.call("ping"))
            theirs.setblocking(False)
            await loop.sock_recv(theirs, 1024)
            send(theirs, {"id": 1})
            await asked
        channel.close()

    asyncio.run(give_up_and_go_on())
    assert troubles == []


def test_a_machine_out_of_descriptors_refuses_a_request_and_ends_no_sandbox() -> None:
    async def ask() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel = Channel(ours, lambda: "it was told to")
        with theirs:
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))  # those are always open
            try:
                with pytest.raises(OSError, match="Too many open files"):
                    await channel.call("spawn", argv=["x" * INLINE_BYTES])
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            assert channel.open
        channel.close()

    asyncio.run(ask())
