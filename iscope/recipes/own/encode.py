"""From the dataclasses of a recipe to the tables, lists and words of a file: what ``decode`` reads back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from iscope.recipes.model import ByOption, Function

Named = Callable[[Function], Any]


def _reference(function: Function) -> str:
    return function.reference


def to_json(node: Any, named: Named = _reference) -> Any:
    """Return a part of a recipe as JSON values, without what is at its default; None is ``none``.

    Args:
        node: the part.
        named: what stands for the call of a function; where it is, unless told otherwise.
    """
    if node is None:
        return "none"
    if isinstance(node, Function):
        return _function(node, named)
    if isinstance(node, ByOption):
        return _by_option(node, named)
    if isinstance(node, StrEnum):
        return str(node)
    if isinstance(node, tuple | list):
        return [to_json(part, named) for part in node]
    if dataclasses.is_dataclass(node):
        values = {part.name: (getattr(node, part.name), part.default) for part in dataclasses.fields(node)}
        return {name: to_json(value, named) for name, (value, default) in values.items() if not _same(value, default)}
    return node


def encode(node: Any) -> Any:
    """Return the same with the functions that are at hand, and not just named, as they are."""
    return to_json(node, lambda function: function.call)


def _same(value: Any, default: Any) -> bool:
    """Whether a value is its default, and not just equal as 1 and true are."""
    return type(value) is type(default) and bool(value == default)


def _function(node: Function, named: Named) -> dict[str, Any]:
    arguments = {name: to_json(value, named) for name, value in node.arguments}
    part = {} if node.part == "whole" else {"part": node.part}
    return {"call": named(node), "arguments": arguments} | part | ({"needs": list(node.needs)} if node.needs else {})


def _by_option(node: ByOption, named: Named) -> dict[str, Any]:
    parts = [{"is": to_json(value, named), "part": to_json(part, named)} for value, part in node.parts]
    otherwise = {} if node.otherwise is None else {"otherwise": to_json(node.otherwise, named)}
    return {"by": node.option, "parts": parts} | otherwise
