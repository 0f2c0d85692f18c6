"""Modules that a command line names."""

import importlib
from types import ModuleType

from rsigym.platform.errors import OperatorError

__all__ = ["import_named", "is_module_name"]


def is_module_name(name: str) -> bool:
    """Whether a module can have that name."""
    return all(part.isidentifier() for part in name.split("."))


def import_named(name: str) -> ModuleType:
    """The module of a name; what its own code raises goes through.

    Raises:
        OperatorError: It cannot be found, or not what it imports.
    """
    if not is_module_name(name):
        raise OperatorError(f"{name!r} is not the name of a module")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise OperatorError(f"the module {name} cannot be imported: {error}") from None
