"""A child process that may run as another user, whatever the event loop is.

uvloop's own subprocesses cannot change the user. So the standard library starts the child, in the
thread of the loop, and a descriptor of the process tells when it ends.
"""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from typing import Any

__all__ = ["Child"]


class Child:
    """A running child process.

    Attributes:
        pid: Its process id.
    """

    def __init__(self, words: Sequence[str], **options: Any):
        """
        Args:
            words: The program and its arguments.
            options: As `subprocess.Popen` takes them.
        """
        self._process = subprocess.Popen(words, **options)
        self.pid = self._process.pid

    async def wait(self) -> int:
        """Waits until it ends; its exit status."""
        if self._process.poll() is None:
            loop = asyncio.get_running_loop()
            ended = asyncio.Event()
            fd = os.pidfd_open(self.pid)
            loop.add_reader(fd, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(fd)
                os.close(fd)
        return self._process.wait()

    def kill(self) -> None:
        """Kills it; nothing happens once it has ended."""
        self._process.kill()
