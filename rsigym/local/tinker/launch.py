"""The local Tinker server as a child process: what it is started with, and how it is reached."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rsigym.local.models import DEFAULT, model_folder
from rsigym.local.server_process import ServerProcess
from rsigym.local.tinker.engines import Dtype
from rsigym.platform.home import home

__all__ = ["Settings", "TinkerServer"]

# The server's threads sleep while they wait for each other: on cores that others use too, threads
# that spin instead make torch many times slower.
_ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True)
class Settings:
    """What a server is started with. Equal settings can share one server.

    Attributes:
        models: Names and the absolute folders behind them.
        store: The absolute folder of the checkpoints.
        dtype: The engines' number format.
        threads: Torch threads of each engine; None leaves it to the engine.
        port: 0 takes a free one.
    """

    models: tuple[tuple[str, str], ...]
    store: str
    dtype: Dtype
    threads: int | None
    port: int

    @classmethod
    def resolve(
        cls,
        models: Mapping[str, Path] | None,
        *,
        store: Path | None,
        dtype: Dtype,
        threads: int | None,
        port: int = 0,
    ) -> "Settings":
        """Fill in the defaults and check the folders.

        The default model is made ready here, in the parent, where its errors are understood.

        Raises:
            OperatorError: A folder holds no model, or the default model cannot be had.
        """
        sources = {DEFAULT: DEFAULT} if models is None else models
        return cls(
            models=tuple(
                (name, str(model_folder(str(it)).resolve())) for name, it in sources.items()
            ),
            store=str((store or home() / "tinker").expanduser().resolve()),
            dtype=dtype,
            threads=threads,
            port=port,
        )


class TinkerServer(ServerProcess):
    """A running local Tinker server, for `tinker.ServiceClient(base_url=url, api_key=api_key)`."""

    def __init__(self, settings: Settings) -> None:
        self._scratch = tempfile.mkdtemp(prefix="rsigym-tinker-")
        super().__init__(
            "rsigym.local.tinker",
            "local Tinker server",
            {**asdict(settings), "scratch": self._scratch},
            api_key=f"tml-{secrets.token_urlsafe(32)}",
            environment=_ENVIRONMENT,
        )

    def close(self) -> None:
        """End the server; what was saved stays in the store. A forked copy ends nothing."""
        super().close()
        if os.getpid() == self._owner:
            shutil.rmtree(self._scratch, ignore_errors=True)
