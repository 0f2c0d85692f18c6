"""Unpacking an archive of a root file system so that nothing in it reaches out of its folder."""

import hashlib
import posixpath
import tarfile
from pathlib import Path

from rsigym.platform.errors import OperatorError

__all__ = ["digest_of", "unpack"]


def digest_of(source: Path) -> str:
    """Names the content of an archive; of a folder, by what its files' listing shows.

    A folder is too large to be read each time; a file that is changed has another time.
    """
    if source.is_file():
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    listing = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        found = path.lstat()
        line = (str(path.relative_to(source)), found.st_mode, found.st_size, found.st_mtime_ns)
        listing.update(repr(line).encode(errors="surrogateescape"))
    return listing.hexdigest()


def unpack(archive: Path, target: Path) -> None:
    """Unpacks a tar, compressed in any way that this Python reads, as the new folder `target`.

    Files belong to this user and are nobody else's to write. Devices, pipes and set-user-id bits
    are left out. A link to an absolute path is one within `target` afterwards.

    Raises:
        OperatorError: It is not such an archive, or something in it leads out.
    """
    target.mkdir(mode=0o755)
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter=_safe)
    except tarfile.FilterError as error:
        raise OperatorError(f"{archive} is not safe to unpack: {error}") from error
    except (tarfile.TarError, EOFError) as error:
        raise OperatorError(
            f"{archive} cannot be unpacked ({error}): give a .tar, .tar.gz, .tar.bz2 or .tar.xz"
        ) from error
    if (target / "manifest.json").exists() and not (target / "usr").exists():
        raise OperatorError(
            f"{archive} holds an image's layers: make it with `docker export` of a container, "
            "not with `docker save`"
        )


def _safe(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo | None:
    if member.issym():
        member = member.replace(linkname=_within(member), deep=False)
    elif not (member.isreg() or member.isdir() or member.islnk()):
        return None
    safe = tarfile.data_filter(member, target)
    # Whoever unpacks may be root, with a mask that would keep sandboxes' user out.
    return safe.replace(mode=0o755, deep=False) if safe.isdir() else safe


def _within(link: tarfile.TarInfo) -> str:
    """Its target as a sandbox would follow it, relative, so that the host follows it there too."""
    folder = posixpath.join("/", posixpath.dirname(posixpath.normpath(link.name)))
    return posixpath.relpath(posixpath.join(folder, link.linkname), folder)
