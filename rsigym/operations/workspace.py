"""The run's own folder: the harness repository, data and notes. Free."""

from typing import Annotated

from pydantic import Field

from rsigym.operations.base import Operation, WorkspacePath

__all__ = ["WorkspaceList", "WorkspaceRead", "WorkspaceWrite"]


class WorkspaceList(Operation, op="workspace.list"):
    """List the files below a folder of the workspace, with their sizes in bytes."""

    path: Annotated[str, Field(max_length=512, description="A folder; the root by default.")] = "."


class WorkspaceRead(Operation, op="workspace.read"):
    """Read a text file of the workspace from a character offset."""

    path: WorkspacePath
    offset: Annotated[int, Field(ge=0, description="The first character to read.")] = 0
    limit: Annotated[int, Field(ge=1, le=32_768, description="Characters at most.")] = 16_384


class WorkspaceWrite(Operation, op="workspace.write"):
    """Write a text file of the workspace, creating its folders; an old file is replaced."""

    path: WorkspacePath
    content: Annotated[
        str, Field(max_length=16_000_000, description="The text.", examples=["", "# Notes\n"])
    ]
    append: Annotated[bool, Field(description="Add to the end instead of replacing.")] = False
    executable: Annotated[bool, Field(description="Mark the file as a program.")] = False
