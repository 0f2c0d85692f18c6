"""One record as training sees it, and many of them in a file, so that memory stays bounded."""

import os
import tempfile
import weakref
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Example", "Examples"]

_BYTES = 4
"""Of a token and of each number beside it."""


@dataclass(frozen=True, slots=True)
class Example:
    """Tokens, and a number for each of them in every other array.

    Attributes:
        tokens: int32 [T].
        weights: float32 [T]; 0 where a token is context, 1 (or another weight) where it is trained.
        logprobs: float32 [T], of whoever sampled the trained tokens; None where nobody needs them.
        advantages: float32 [T]; None likewise.
    """

    tokens: np.ndarray
    weights: np.ndarray
    logprobs: np.ndarray | None = None
    advantages: np.ndarray | None = None

    @property
    def trained(self) -> np.ndarray:
        """Bool [T - 1]: which tokens are trained. The first of all is never predicted."""
        return self.weights[1:] != 0

    @property
    def arrays(self) -> list[np.ndarray]:
        """All that it has, in the order of the fields."""
        arrays = (self.tokens, self.weights, self.logprobs, self.advantages)
        return [each for each in arrays if each is not None]

    def cut(self, length: int) -> "Example":
        """The first `length` tokens."""
        return Example(*(array[:length] for array in self.arrays))


class Examples:
    """Examples in a file that nobody else sees and that ends with this object, or by `close`.

    All have the same arrays. In memory are 16 bytes for each.

    Args:
        folder: On whose disk the file is.

    Attributes:
        trained_tokens: How many tokens of them all are trained.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it lives as long as this
        self.close = weakref.finalize(self, self._file.close)
        self._lengths = array("q")
        self._starts = array("q")
        self._columns = 0
        self.trained_tokens = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, index: int) -> Example:
        length, columns = self._lengths[index], self._columns
        size = columns * length * _BYTES
        raw = os.pread(self._file.fileno(), size, self._starts[index])
        tokens, *others = (raw[at : at + length * _BYTES] for at in range(0, size, length * _BYTES))
        return Example(
            np.frombuffer(tokens, np.int32), *(np.frombuffer(each, np.float32) for each in others)
        )

    def add(self, example: Example) -> None:
        """Put one behind the others."""
        arrays = example.arrays
        self._columns = len(arrays)
        self._lengths.append(len(example.tokens))
        self._starts.append(self._file.tell())
        self._file.write(b"".join(each.tobytes() for each in arrays))
        self.trained_tokens += int(np.count_nonzero(example.trained))

    def seal(self) -> None:
        """Make what was added readable."""
        self._file.flush()

    @property
    def lengths(self) -> np.ndarray:
        """int64 [N]: tokens of each example."""
        return np.array(self._lengths, np.int64)
