"""A file's bytes between a connection and the sandbox's own descriptor."""

import asyncio
import errno
import os
import zlib
from collections.abc import AsyncIterator
from io import FileIO

__all__ = ["Sink", "gunzipped", "gzipped", "pieces"]

_PIECE = 1 << 20
# Below this a thread costs more than the copy.
_SMALL = 64 << 10


class Sink:
    """Writes to a descriptor, in large pieces and off the loop."""

    def __init__(self, fd: int, most: int | None):
        """
        Args:
            fd: Closed by `close`.
            most: Bytes that may be written: the limits of the sandbox do not bind this process.
        """
        self._fd, self._left = fd, most
        self._waiting: list[bytes] = []
        self._size = 0

    async def write(self, data: bytes) -> None:
        """
        Raises:
            OSError: The disk is full, or the file would be too large.
        """
        self._waiting.append(data)
        self._size += len(data)
        if self._left is not None and self._size > self._left:
            raise OSError(errno.EFBIG, "larger than a file may be here")
        if self._size >= _PIECE:
            await asyncio.to_thread(self._flush)

    async def finish(self) -> None:
        """Writes what is left."""
        if self._size > _SMALL:
            await asyncio.to_thread(self._flush)
        else:
            self._flush()

    def close(self) -> None:
        os.close(self._fd)

    def _flush(self) -> None:
        data = memoryview(b"".join(self._waiting))
        if self._left is not None:
            self._left -= len(data)
        self._waiting, self._size = [], 0
        while data:
            data = data[os.write(self._fd, data) :]


async def pieces(file: FileIO, size: int) -> AsyncIterator[bytes]:
    """The first `size` bytes of a file, of which it may have fewer by now; closes it."""
    with file:
        while size:
            wanted = min(_PIECE, size)
            if wanted <= _SMALL:
                piece = file.read(wanted)
            else:
                piece = await asyncio.to_thread(file.read, wanted)
            if not piece:
                return
            size -= len(piece)
            yield piece


async def gzipped(source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Compressed as gzip."""
    packer = zlib.compressobj(1, wbits=31)
    async for piece in source:
        if packed := await asyncio.to_thread(packer.compress, piece):
            yield packed
    yield packer.flush()


async def gunzipped(source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The content of gzip, in pieces of at most 1 MiB however well it was packed.

    Raises:
        OSError: It is not gzip, or something else follows it.
    """
    unpacker = zlib.decompressobj(wbits=31)
    try:
        async for piece in source:
            packed = piece
            while packed:
                if unpacker.eof:  # its parts may stand one behind the other
                    unpacker = zlib.decompressobj(wbits=31)
                yield unpacker.decompress(packed, _PIECE)
                packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    except zlib.error as error:
        raise OSError(errno.EINVAL, "the body is not gzip") from error
    if not unpacker.eof:
        raise OSError(errno.EINVAL, "the body is gzip that is cut off")
