"""The workspace service: listing, reading and writing the run's own folder. Free."""

from rsigym.operations import Operation
from rsigym.operations.workspace import WorkspaceList, WorkspaceRead, WorkspaceWrite
from rsigym.platform.service import Evidence, Prepared
from rsigym.services.pieces import piece_told
from rsigym.services.workspace_files import Files

__all__ = ["WorkspaceService"]

_LISTED = 1000
"""Files that one listing names: with their paths they fit into an observation."""


class WorkspaceService:
    """Does `workspace.list`, `workspace.read` and `workspace.write`."""

    def __init__(self, workspace: Files):
        self._workspace = workspace

    def prepare(self, operation: Operation) -> Prepared:
        match operation:
            case WorkspaceList():
                return Prepared(lambda _: self._list(operation))
            case WorkspaceRead():
                return Prepared(lambda _: self._read(operation))
            case WorkspaceWrite():
                self._workspace.require_place(operation.path)
                return Prepared(lambda _: self._write(operation))
            case _:
                raise TypeError(f"not an operation of the workspace: {operation.op}")

    def close(self) -> None:
        """Nothing runs."""

    def _list(self, operation: WorkspaceList) -> Evidence:
        files, more = self._workspace.list(operation.path, _LISTED)
        return {"files": [{"path": path, "size": size} for path, size in files], "more": more}

    def _read(self, operation: WorkspaceRead) -> Evidence:
        content, more = self._workspace.read_text(operation.path, operation.offset, operation.limit)
        size = self._workspace.size(operation.path)
        return {**piece_told(content, operation.offset, more=more), "size": size}

    def _write(self, operation: WorkspaceWrite) -> Evidence:
        size = self._workspace.write_text(
            operation.path,
            operation.content,
            append=operation.append,
            executable=operation.executable,
        )
        return {"path": operation.path, "size": size}
