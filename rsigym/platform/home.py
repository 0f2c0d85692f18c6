"""Where rsigym keeps what outlives one run: model folders, task folders, checkpoints."""

import os
from pathlib import Path

__all__ = ["home"]


def home() -> Path:
    """`$RSIGYM_HOME`, else `~/.cache/rsigym`. Not created here."""
    configured = os.environ.get("RSIGYM_HOME")
    return Path(configured).expanduser() if configured else Path.home() / ".cache" / "rsigym"
