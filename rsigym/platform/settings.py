"""The settings of a training call by dotted path, for grants that name them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from rsigym.operations.json_value import Json
from rsigym.operations.training import TrainingConfig, TrainingSubmit
from rsigym.platform.frozen import FrozenDict

__all__ = ["DEFAULTS", "Setting", "normal", "same", "settings", "with_settings"]

_BESIDE = ("loss", "init_from")


class Setting(NamedTuple):
    """One leaf of a call's configuration: its value, and whether the caller gave it."""

    path: str
    value: Json
    given: bool


def settings(call: TrainingSubmit) -> Iterator[Setting]:
    """Every setting of a call: those beside `config`, and the leaves of it."""
    for name in _BESIDE:
        yield Setting(name, getattr(call, name), name in call.model_fields_set)
    yield from _leaves(call.config, "", "config" in call.model_fields_set)


def with_settings(call: TrainingSubmit, values: Mapping[str, Json]) -> TrainingSubmit:
    """The call with some settings at other values.

    Raises:
        pydantic.ValidationError: A value is not of the setting's type.
    """
    arguments = call.model_dump(exclude_unset=True)
    for path, value in values.items():
        *parents, leaf = path.split(".")
        node: dict[str, Any] = arguments
        for name in parents if path in _BESIDE else ("config", *parents):
            node = node.setdefault(name, {})
        node[leaf] = value
    return TrainingSubmit.model_validate(arguments)


def normal(path: str, value: Json) -> Json:
    """A setting's value as the call would hold it: `1` for a float becomes `1.0`.

    Raises:
        ValueError: There is no such setting, or the value is not one of its type.
    """
    if path not in DEFAULTS:
        raise ValueError(f"training has no setting {path!r}; it has: {', '.join(DEFAULTS)}")
    call = with_settings(_BARE, {path: value})
    return next(setting.value for setting in settings(call) if setting.path == path)


def same(a: Json, b: Json) -> bool:
    """Equality that tells `True`, `1` and `1.0` apart, at any depth."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def _leaves(model: BaseModel, prefix: str, given: bool) -> Iterator[Setting]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        is_given = given and name in model.model_fields_set
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{prefix}{name}.", is_given)
        else:
            yield Setting(f"{prefix}{name}", value, is_given)


_BARE = TrainingSubmit(data=[], config=TrainingConfig())

DEFAULTS: Mapping[str, Json] = FrozenDict({each.path: each.value for each in settings(_BARE)})
"""Every setting and its default."""
