"""What passes between a loss's process and its parent: JSON, and float32 numbers behind it."""

import json
import struct
from typing import IO, Any

__all__ = ["read_frame", "write_frame"]

_SIZES = struct.Struct("!QQ")


def write_frame(pipe: IO[bytes], message: dict[str, Any], numbers: bytes = b"") -> None:
    """Send one message."""
    text = json.dumps(message).encode()
    pipe.write(_SIZES.pack(len(text), len(numbers)) + text + numbers)
    pipe.flush()


def read_frame(pipe: IO[bytes], most: int) -> tuple[dict[str, Any], bytes]:
    """Receive one of at most `most` bytes.

    Raises:
        EOFError: The other side has ended.
        ValueError: It is longer, or no message.
    """
    text, numbers = _SIZES.unpack(_exactly(pipe, _SIZES.size))
    if text + numbers > most:
        raise ValueError(f"a message of {text + numbers} bytes; the most is {most}")
    message = json.loads(_exactly(pipe, text))
    if not isinstance(message, dict):
        raise ValueError("a message that is no object")
    return message, _exactly(pipe, numbers)


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
