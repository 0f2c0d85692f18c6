"""What bubblewrap is handed as open descriptors, which it closes before the sandbox begins."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from rsigym.local.sandbox.descriptors import memory_file
from rsigym.local.sandbox.layout import HOME
from rsigym.local.sandbox.seccomp import seccomp_program

__all__ = ["SUPERVISOR", "Handed", "handed"]

SUPERVISOR = "/run/rsigym/supervisor.pyz"
"""The supervisor's archive inside."""

_ETC = {
    "/etc/passwd": f"user:x:1000:1000::{HOME}:/bin/bash\n",
    "/etc/group": "user:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
}


@dataclass(frozen=True)
class Handed:
    """Descriptors.

    Attributes:
        files: Of what the sandbox reads at these paths and cannot write.
        system_calls: Of the filter of its system calls; None where there is none for this machine.
        info: Where bubblewrap writes the process id of the sandbox.
        told: Where that is read.
    """

    files: Mapping[str, int]
    system_calls: int | None
    info: int
    told: BinaryIO

    @property
    def all(self) -> list[int]:
        """What bubblewrap has to inherit."""
        calls = [] if self.system_calls is None else [self.system_calls]
        return [*self.files.values(), *calls, self.info]


@contextmanager
def handed(archive: bytes) -> Iterator[Handed]:
    """Opens them for one sandbox. `told` is left open, for whoever waits for it.

    Args:
        archive: The supervisor's.
    """
    contents = {path: text.encode() for path, text in _ETC.items()} | {SUPERVISOR: archive}
    program = seccomp_program()
    with ExitStack() as stack:
        files = {path: stack.enter_context(memory_file(each)) for path, each in contents.items()}
        calls = stack.enter_context(memory_file(program)) if program else None
        there, info = os.pipe()
        stack.callback(os.close, info)
        told = open(there, "rb")  # noqa: SIM115
        try:
            yield Handed(files, calls, info, told)
        except BaseException:
            told.close()
            raise
