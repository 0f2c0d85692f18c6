"""The files of a `multipart/form-data` body, as they arrive."""

import errno
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from python_multipart.multipart import MultipartParser, parse_options_header

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

__all__ = ["parts"]

type Event = tuple[str, bytes]


async def parts(content_type: str, body: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """(`"file"`, its name), then (`"data"`, a piece of it) and so on, then (`"end"`, nothing).

    Raises:
        OSError: It is not multipart, or is cut off.
    """
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if boundary is None:
        raise OSError(errno.EINVAL, "the body has to be multipart/form-data with a boundary")
    events: list[Event] = []
    parser = MultipartParser(boundary, _Callbacks(events).table())
    ended = False
    async for piece in body:
        try:
            parser.write(piece)
        except ValueError as error:
            raise OSError(errno.EINVAL, f"the body is not multipart: {error}") from error
        for event in events:
            ended |= event[0] == "last"
            if event[0] != "last":
                yield event
        events.clear()
    if not ended:
        raise OSError(errno.EINVAL, "the body is cut off")


class _Callbacks:
    """The parser's events, written down in their order."""

    def __init__(self, events: list[Event]):
        self._events = events
        self._name, self._value = b"", b""

    def table(self) -> "MultipartCallbacks":
        return {
            "on_header_field": self._add_name,
            "on_header_value": self._add_value,
            "on_header_end": self._end_header,
            "on_part_data": lambda data, start, end: self._events.append(("data", data[start:end])),
            "on_part_end": lambda: self._events.append(("end", b"")),
            "on_end": lambda: self._events.append(("last", b"")),
        }

    def _add_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._name.lower() == b"content-disposition":
            options = parse_options_header(self._value)[1]
            self._events.append(("file", options.get(b"filename", b"")))
        self._name, self._value = b"", b""
