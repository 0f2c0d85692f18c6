"""Sandboxes of the agent's own: machines to run commands in, paid by the time that they exist.

What is paid is the sandbox, not what is done in it: `sandbox.create` holds a lease ahead and renews
it, and reading, writing, running and killing cost nothing more. So an empty budget masks creating
alone, and what is in a sandbox that is paid for can still be fetched.
"""

from typing import Annotated

from pydantic import Field

from rsigym.operations.base import Operation, PaidFrom

__all__ = ["SandboxCreate", "SandboxKill", "SandboxRead", "SandboxRun", "SandboxWrite"]

SandboxHandle = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        description="What sandbox.create answered, such as sandbox-1.",
        examples=["sandbox-1"],
    ),
]
SandboxPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4096,
        description="A path in the sandbox; a relative one starts at its home folder.",
        examples=["notes.md", "/tmp/data.json"],
    ),
]


class SandboxCreate(Operation, op="sandbox.create", paid=True):
    """Start a sandbox. It is charged by the time that it exists, so kill it when you are done."""

    internet: Annotated[bool, Field(description="Whether it can reach the internet.")] = False
    timeout_s: Annotated[
        int, Field(ge=1, le=86_400, description="Seconds after which it is killed.")
    ] = 600
    template: Annotated[
        str, Field(min_length=1, max_length=128, description="What is installed in it.")
    ] = "base"
    benchmark: PaidFrom = None


class SandboxRun(Operation, op="sandbox.run"):
    """Run a bash command in a sandbox; answers its exit code, stdout and stderr."""

    sandbox: SandboxHandle
    command: Annotated[str, Field(min_length=1, max_length=100_000, examples=["ls", "python3 -V"])]
    cwd: Annotated[
        str | None, Field(min_length=1, max_length=4096, description="Its home folder by default.")
    ] = None
    env: Annotated[
        dict[str, str] | None, Field(max_length=1000, description="Variables of the environment.")
    ] = None
    timeout_s: Annotated[
        float, Field(gt=0, le=3600, description="Seconds after which the command is killed.")
    ] = 60.0


class SandboxRead(Operation, op="sandbox.read"):
    """Read a text file of a sandbox from a character offset."""

    sandbox: SandboxHandle
    path: SandboxPath
    offset: Annotated[int, Field(ge=0, description="The first character to read.")] = 0
    limit: Annotated[int, Field(ge=1, le=32_768, description="Characters at most.")] = 16_384


class SandboxWrite(Operation, op="sandbox.write"):
    """Write a text file of a sandbox, creating its folders; an old file is replaced."""

    sandbox: SandboxHandle
    path: SandboxPath
    content: Annotated[
        str, Field(max_length=16_000_000, description="The text.", examples=["", "# Notes\n"])
    ]
    append: Annotated[bool, Field(description="Add to the end instead of replacing.")] = False


class SandboxKill(Operation, op="sandbox.kill"):
    """End a sandbox, and with it all that it holds; answers what it cost."""

    sandbox: SandboxHandle
