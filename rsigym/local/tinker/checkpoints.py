"""What a checkpoint is, and how its `tinker://<run>/<kind>/<name>` path is read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rsigym.local.tinker.refusal import Refusal

__all__ = [
    "DESCRIPTION",
    "KINDS",
    "Checkpoint",
    "Kind",
    "Run",
    "parse_path",
    "require_kind",
    "safe_name",
]

type Kind = Literal["weights", "sampler_weights", "external_weights"]
KINDS: tuple[Kind, ...] = ("weights", "sampler_weights", "external_weights")

DESCRIPTION = "checkpoint.json"
"""What the store writes beside an adapter's own files."""

_CALLED: dict[Kind, str] = {
    "weights": "a training checkpoint",
    "sampler_weights": "a sampler checkpoint",
    "external_weights": "an export",
}
_USES: dict[Kind, str] = {
    "weights": "trained on: load one that save_state made",
    "sampler_weights": "sampled from: make a sampler checkpoint with save_weights_for_sampler",
    "external_weights": "downloaded: make an export with save_weights_external",
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


@dataclass(frozen=True)
class Run:
    """One training run: the life of one training client's model.

    Attributes:
        id: The model id.
        base_model: The name of the model it adapts.
        lora: rank, seed, train_mlp, train_attn, train_unembed.
        started: Seconds since the epoch.
        user_metadata: What the client attached to it.
    """

    id: str
    base_model: str
    lora: Mapping[str, int | bool]
    started: float
    user_metadata: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Checkpoint:
    """One saved adapter.

    Attributes:
        run_id: The training run it belongs to.
        kind: `weights` (for training, with optimizer state), `sampler_weights`, or
            `external_weights` (for download).
        name: Its name within run and kind.
        folder: Where it lies.
        saved: Seconds since the epoch.
        expires: Seconds since the epoch after which it is gone, or None.
        user_metadata: What the client attached to it.
    """

    run_id: str
    kind: Kind
    name: str
    folder: Path
    saved: float
    expires: float | None
    user_metadata: Mapping[str, str] | None

    @property
    def id(self) -> str:
        """Its id within the run."""
        return f"{self.kind}/{self.name}"

    @property
    def path(self) -> str:
        return f"tinker://{self.run_id}/{self.id}"

    @property
    def files(self) -> dict[str, Path]:
        """The adapter's files by name."""
        found = sorted(self.folder.glob("[!.]*"))
        return {file.name: file for file in found if file.name != DESCRIPTION}

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.stat().st_size for file in self.files.values())


def safe_name(component: str) -> str:
    """One component of a path below the store; anything that could lead elsewhere is refused."""
    if not _NAME.fullmatch(component):
        raise Refusal(
            400,
            f"{component!r} cannot name a run or a checkpoint: use letters, digits and . _ : - "
            "(at most 200, the first a letter or digit)",
        )
    return component


def parse_path(path: str) -> tuple[str, Kind, str]:
    """The run, the kind and the name in a tinker:// path."""
    match path.split("/"):
        case ["tinker:", "", run_id, kind, name]:
            for known in KINDS:
                if kind == known:
                    return run_id, known, name
    shapes = " or ".join(f"tinker://<run>/{kind}/<name>" for kind in KINDS)
    raise Refusal(400, f"{path!r} is not a checkpoint: expected {shapes}")


def require_kind(path: str, found: Kind, wanted: Kind) -> None:
    """Refuse to use a checkpoint for what another kind is made for."""
    if found != wanted:
        shape = f"tinker://<run>/{wanted}/<name>"
        raise Refusal(400, f"{path} is {_CALLED[found]} and cannot be {_USES[wanted]} ({shape})")
