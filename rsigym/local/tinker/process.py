"""Ways to have a local Tinker server: for a block, or in the foreground; `shared` is the third."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rsigym.local.tinker.engines import Dtype
from rsigym.local.tinker.launch import Settings, TinkerServer
from rsigym.platform.errors import OperatorError

__all__ = ["TinkerServer", "serve", "tinker_server"]


@contextmanager
def tinker_server(
    models: Mapping[str, Path] | None = None,
    *,
    store: Path | None = None,
    dtype: Dtype = "auto",
    threads: int | None = None,
) -> Iterator[TinkerServer]:
    """A local Tinker server for the length of a block.

    Args:
        models: Hugging Face model folders by the names they are offered under; by default
            SmolLM2-135M-Instruct under its own name.
        store: Where checkpoints are kept; by default `tinker` in `rsigym.platform.home`.
        dtype: The engines' number format; "auto" takes bfloat16 where the processor is fast at it.
        threads: Torch threads of each engine.

    Raises:
        OperatorError: A folder holds no model, or the server does not start; it says why.
    """
    server = TinkerServer(Settings.resolve(models, store=store, dtype=dtype, threads=threads))
    try:
        yield server
    finally:
        server.close()


def serve(
    models: Mapping[str, Path] | None = None,
    *,
    port: int = 0,
    store: Path | None = None,
    dtype: Dtype = "auto",
    threads: int | None = None,
) -> None:
    """Run a server in the foreground until Ctrl-C, and print how to reach it.

    Raises:
        OperatorError: It does not start, or it ends by itself.
    """
    settings = Settings.resolve(models, store=store, dtype=dtype, threads=threads, port=port)
    server = TinkerServer(settings)
    print(f"TINKER_BASE_URL={server.url}\nTINKER_API_KEY={server.api_key}", flush=True)
    try:
        raise OperatorError(f"the local Tinker server ended: {server.wait()}")
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
