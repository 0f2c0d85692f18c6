"""A file or folder of the sandbox, as each of the two APIs describes it."""

import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from e2b.envd.filesystem import filesystem_pb as pb
from protobuf.wkt import Timestamp

if TYPE_CHECKING:
    from rsigym.local.sandbox.files import Entry

__all__ = ["entry_message", "written"]

_TYPES = {
    "file": pb.FileType.FILE,
    "dir": pb.FileType.DIRECTORY,
    "symlink": pb.FileType.SYMLINK,
}
_FORMATS = {"file": stat.S_IFREG, "dir": stat.S_IFDIR, "symlink": stat.S_IFLNK}


def entry_message(entry: "Entry") -> pb.EntryInfo:
    """The message of `filesystem.Filesystem`. A link is described itself, not what it leads to."""
    permissions = stat.S_IMODE(entry.mode)
    return pb.EntryInfo(
        name=entry.name,
        type=_TYPES.get(entry.type, pb.FileType.UNSPECIFIED),
        path=entry.path,
        size=entry.size,
        mode=permissions,
        permissions=stat.filemode(_FORMATS.get(entry.type, 0) | permissions),
        owner=entry.owner,
        group=entry.group,
        modified_time=Timestamp.from_datetime(datetime.fromtimestamp(entry.modified, UTC)),
        symlink_target=entry.target,
        is_symlink=entry.type == "symlink",
    )


def written(path: str) -> dict[str, Any]:
    """What `POST /files` answers about one file."""
    return {"name": path.rpartition("/")[2], "type": "file", "path": path}
