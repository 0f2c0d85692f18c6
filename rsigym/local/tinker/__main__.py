"""The child process behind `rsigym.local.tinker.launch`: `python -m rsigym.local.tinker`.

Reads one line of JSON settings from standard input, answers with its URL on standard output, and
serves until standard input is closed.
"""

import importlib
import json
import os
import select
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Any

# How often the parent is looked for, beside the pipe: a process that the parent forked without
# our knowledge could hold the pipe open.
WATCH_S = 1.0


def main() -> None:
    settings = json.loads(sys.stdin.buffer.readline())
    watch = (settings["parent"], settings["scratch"])
    threading.Thread(target=_end_with_parent, args=watch, daemon=True).start()
    _serve(settings)
    _end(settings["scratch"])


def _serve(settings: dict[str, Any]) -> None:
    import uvicorn

    from rsigym.local.tinker.server import tinker_app

    listener = socket.create_server(("127.0.0.1", settings["port"]), backlog=2048)
    # asyncio does this for sockets it opens itself only; without it each answer takes 40 ms more.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Seconds of importing torch, while clients are still on their way to their first request.
    engine = "rsigym.local.tinker.engine"
    threading.Thread(target=importlib.import_module, args=(engine,), daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])


def _end_with_parent(parent: int, scratch: str) -> None:
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin], [], [], WATCH_S)
        if ready and not os.read(sys.stdin.fileno(), 1):
            break
    _end(scratch)


def _end(scratch: str) -> None:
    """End at once, whatever torch is at: checkpoints are renamed into place when whole."""
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
