"""The child process behind `rsigym.local.tinker.launch`: `python -m rsigym.local.tinker`.

Reads one line of JSON settings from standard input, answers with its URL on standard output, and
serves until standard input is closed.
"""

import importlib
import os
import shutil
import threading
from pathlib import Path
from typing import Any

from rsigym.local.server_child import announce, open_listener, read_settings, when_parent_ends


def main() -> None:
    settings = read_settings()
    when_parent_ends(settings["parent"], lambda: _end(settings["scratch"]))
    _serve(settings)
    _end(settings["scratch"])


def _serve(settings: dict[str, Any]) -> None:
    import uvicorn

    from rsigym.local.tinker.server import tinker_app

    listener = open_listener(settings["port"])
    app = tinker_app(
        {name: Path(folder) for name, folder in settings["models"]},
        store=Path(settings["store"]),
        scratch=Path(settings["scratch"]),
        api_key=settings["api_key"],
        dtype=settings["dtype"],
        threads=settings["threads"],
    )
    config = uvicorn.Config(
        app,
        ws="none",
        log_config=None,
        access_log=False,
        # The SDK keeps idle connections and counts one that closes under it as a failure.
        timeout_keep_alive=3600,
        timeout_graceful_shutdown=1,
    )
    announce(listener)
    # Seconds of importing torch, while clients are still on their way to their first request.
    engine = "rsigym.local.tinker.engine"
    threading.Thread(target=importlib.import_module, args=(engine,), daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])


def _end(scratch: str) -> None:
    """End at once, whatever torch is at: checkpoints are renamed into place when whole."""
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
