"""Whether what was read into a dataclass is of the types that its attributes have."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from iscope.place import shown

T = TypeVar("T")

# What is below the top of a tree of figures, which was read as one.
_TREES = {"Node": Any}


def checked(one: T) -> T:
    """Return an instance of a dataclass as it is.

    Raises:
        ValueError: when one of its attributes is not of its type.
    """
    for name, hint in get_type_hints(type(one), localns=_TREES).items():
        value = getattr(one, name)
        if not _is_of(value, hint):
            raise ValueError(f"{name} must not be {shown(value)}")
    return one


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of a type: of those that the parts of reports have."""
    if hint is Any:
        return True
    origin, of = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_of(value, one) for one in of)
    if origin is dict:
        return isinstance(value, dict) and _all_are(value, of[0]) and _all_are(value.values(), of[1])
    if origin in (list, tuple):
        return isinstance(value, origin) and _all_are(value, of[0])
    if hint is float:
        return isinstance(value, int | float)
    return isinstance(value, NoneType if hint is None else hint)


def _all_are(values: Iterable[Any], hint: Any) -> bool:
    return all(_is_of(value, hint) for value in values)
