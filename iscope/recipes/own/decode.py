"""From the tables, lists and words of a file to the dataclasses of a recipe, by their annotations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from iscope.place import shown
from iscope.recipes.model import ByOption, Function, Ref
from iscope.recipes.own.where import Where

NONE = "none"


def decode(kind: Any, value: Any, where: Where) -> Any:
    """Return the value as its kind.

    A table is a dataclass, a list a tuple, ``none`` is None. An option stands where a number or a truth value does by
    its short name, and anywhere as ``{option = "clip_max"}``; a choice between parts is ``{by = "option", parts = [{is
    = "value", part = ...}], otherwise = ...}``.

    Args:
        kind: an annotation of the recipe's dataclasses.
        value: what stands in the file.
        where: its place.

    Raises:
        UsageError: when it is no such value.
    """
    if isinstance(value, dict) and "by" in value:
        return _by_option(kind, value, where)
    words = [word for member in _members(kind) for word in _words(member)]
    named_options = not where.values_only and not (words and isinstance(value, str))  # a word is never an option
    members = [member for member in _members(kind) if named_options or member is not Ref]
    for member in members:
        if _fits(member, value):
            return _READERS[_shape(member)](member, value, where)
    named = [in_words(member) for member in members]
    raise where.error(f"it must be {' or '.join(dict.fromkeys(named))}, not {shown(value)}", value, words)


def fields_of(kind: Any, table: dict[str, Any], where: Where) -> dict[str, Any]:
    """Return the fields of a dataclass that a table gives.

    Raises:
        UsageError: when a key is unknown or a value is of the wrong kind.
    """
    hints = hints_of(kind)
    for key in table:
        if key not in hints:
            raise where.error(f"there is no key {shown(key)}; the keys are {', '.join(hints)}", key, hints)
    return {key: decode(hints[key], value, where.at(key)) for key, value in table.items()}


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Return the annotations of a dataclass, by field, in order."""
    hints = get_type_hints(kind)
    return {part.name: hints[part.name] for part in dataclasses.fields(kind)}


def in_words(kind: Any) -> str:
    """Return what a kind accepts, for an error."""
    if _words(kind):
        return ("one of " if len(_words(kind)) > 1 else "") + ", ".join(map(shown, _words(kind)))
    names = {NoneType: "none", float: "a number", bool: "true or false", str: "text", Ref: "an option's name"}
    if kind in names:
        return names[kind]
    return {"tuple": "a list", "function": "module:function"}.get(_shape(kind), "a table")


def _members(kind: Any) -> tuple[Any, ...]:
    """The kinds that a union is of; a value is the first that fits."""
    order = ("none", "bool", "float", "enum", "literal", "str", "ref", "function", "table", "tuple")
    if get_origin(kind) not in (Union, UnionType):
        return (kind,)
    found = [member for part in get_args(kind) for member in _members(part)]
    flat = [member for member in found if member is not int]
    return tuple(sorted(flat, key=lambda member: order.index(_shape(member))))


def _shape(kind: Any) -> str:
    plain = {NoneType: "none", bool: "bool", float: "float", str: "str", Ref: "ref", Function: "function"}
    if kind in plain:
        return plain[kind]
    if get_origin(kind) is Literal:
        return "literal"
    if get_origin(kind) is tuple:
        return "tuple"
    return "enum" if isinstance(kind, type) and issubclass(kind, Enum) else "table"


def _words(kind: Any) -> tuple[Any, ...]:
    """The words that an enumeration consists of."""
    if _shape(kind) == "literal":
        return get_args(kind)
    return tuple(str(member.value) for member in kind) if _shape(kind) == "enum" else ()


def _fits(kind: Any, value: Any) -> bool:
    """Whether a value looks as if it were meant as this kind."""
    shape = _shape(kind)
    if _words(kind):
        return value in _words(kind) if isinstance(value, str) else False
    looks: dict[str, bool] = {
        "none": value is None or value == NONE,
        "bool": isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "str": isinstance(value, str),
        "ref": isinstance(value, str) or (isinstance(value, dict) and "option" in value),
        "function": isinstance(value, str | dict) or callable(value),
        "table": isinstance(value, dict),
        "tuple": isinstance(value, list | tuple),
    }
    return looks[shape]


def _number(_kind: Any, value: Any, where: Where) -> Any:
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise where.error(f"it must be finite, not {shown(value)}")
    return value


def _enum(kind: Any, value: Any, _where: Where) -> Any:
    return kind(value)


def _reference(_kind: Any, value: Any, where: Where) -> Any:
    return Ref(value) if isinstance(value, str) else Ref(**fields_of(Ref, value, where))


def _table(kind: Any, value: Any, where: Where) -> Any:
    given = fields_of(kind, value, where)
    for part in dataclasses.fields(kind):
        if part.name not in given and part.default is dataclasses.MISSING:
            raise where.error(f"it lacks the key {part.name!r}")
    return kind(**given)


def _tuple(kind: Any, value: Any, where: Where) -> Any:
    kinds = get_args(kind)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(decode(kinds[0], item, where.at(index)) for index, item in enumerate(value))
    if len(value) != len(kinds):
        raise where.error(f"it must be a list of {len(kinds)}, not of {len(value)}")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(decode(each, item, where.at(place)) for place, (each, item) in pairs)


def _function(kind: Any, value: Any, where: Where) -> Function:
    if not isinstance(value, dict):
        value = {"call": value}
    call, named = value.get("call"), value.get("arguments", {})
    if isinstance(call, str) and not all(call.rpartition(":")):
        raise where.error(f"it must be module:function or file.py:function, not {shown(call)}")
    if not isinstance(call, str) and not callable(call):
        raise where.error("it lacks the key 'call', module:function or file.py:function")
    if not isinstance(named, dict):
        raise where.at("arguments").error(f"it must be a table, not {shown(named)}")
    rest = {key: item for key, item in value.items() if key not in ("call", "arguments")}
    argument = float | bool | str | None if where.values_only else float | bool | Ref | None
    arguments = tuple((name, decode(argument, item, where.at("arguments").at(name))) for name, item in named.items())
    return Function(call, arguments, **fields_of(kind, rest, where))


def _by_option(kind: Any, table: dict[str, Any], where: Where) -> ByOption:
    if where.values_only:
        raise where.error("its option was not filled in")
    for key in table:
        if key not in ("by", "parts", "otherwise"):
            raise where.error(f"there is no key {shown(key)} beside 'by'", key, ("parts", "otherwise"))
    option = decode(str, table["by"], where.at("by"))
    listed = table.get("parts")
    if not isinstance(listed, list) or not listed:
        raise where.at("parts").error(f"it must be a list of {{is = .., part = ..}}, not {shown(listed)}")
    parts = []
    for index, item in enumerate(listed):
        place = where.at("parts").at(index)
        if not isinstance(item, dict) or set(item) != {"is", "part"}:
            raise place.error(f"it must be {{is = .., part = ..}}, not {shown(item)}")
        value = decode(float | bool | str | None, item["is"], place.at("is"))
        parts.append((value, decode(kind | None, item["part"], place.at("part"))))
    otherwise = decode(kind, table["otherwise"], where.at("otherwise")) if "otherwise" in table else None
    return ByOption(option, tuple(parts), otherwise)


def _same(_kind: Any, value: Any, _where: Where) -> Any:
    return value


def _nothing(_kind: Any, _value: Any, _where: Where) -> None:
    return None


_READERS: dict[str, Callable[[Any, Any, Where], Any]] = {
    "none": _nothing,
    "bool": _same,
    "float": _number,
    "str": _same,
    "enum": _enum,
    "literal": _same,
    "ref": _reference,
    "function": _function,
    "table": _table,
    "tuple": _tuple,
}
