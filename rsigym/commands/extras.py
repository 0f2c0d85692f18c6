"""What the local backend needs beyond the base install."""

from importlib.util import find_spec

from rsigym.platform.errors import OperatorError

__all__ = ["INSTALL", "LOCAL_PACKAGES", "missing_packages", "require_local"]

LOCAL_PACKAGES = (
    "torch",
    "transformers",
    "gguf",
    "safetensors",
    "harbor",
    "tinker",
    "e2b",
    "fastapi",
    "python_multipart",
    "uvicorn",
    "uvloop",
    "httptools",
    "rich",
    "litellm",
    "sqlalchemy",
)
"""The packages of the extra `local`; each is imported under its own name."""

INSTALL = "pip install 'rsigym[local]'"


def missing_packages() -> list[str]:
    """Those that are not installed; none of them is imported."""
    return [name for name in LOCAL_PACKAGES if find_spec(name) is None]


def require_local() -> None:
    """
    Raises:
        OperatorError: A package of the extra is missing.
    """
    if missing := missing_packages():
        raise OperatorError(f"the local backend needs {', '.join(missing)}: run `{INSTALL}`")
