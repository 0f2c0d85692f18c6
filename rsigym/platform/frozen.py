"""A dict that cannot be changed: what permissions are made of."""

from typing import Any, NoReturn

__all__ = ["FrozenDict"]


class FrozenDict[K, V](dict[K, V]):
    """A dict, dicts inside it included, that refuses every change; hashable and picklable.

    It is a `dict` so that pydantic, JSON and equality treat it as one.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        content: dict[Any, Any] = dict(*args, **kwargs)
        super().__init__({key: _frozen(value) for key, value in content.items()})

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("permissions cannot be changed: combine them with & to narrow them")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = _refuse
    setdefault = _refuse  # pyright: ignore[reportAssignmentType]
    update = _refuse  # pyright: ignore[reportAssignmentType]

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


def _frozen(value: Any) -> Any:
    match value:
        case dict():
            return FrozenDict(value)
        case tuple():
            return tuple(_frozen(each) for each in value)
        case _:
            return value
