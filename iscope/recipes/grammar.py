"""The grammar of a recipe, ``NAME`` or ``NAME:option=value,...``, and the binding of its options.

Leading values without a name are positional, in the order in which the recipe declares its own options. ``none`` is
no bound. The canonical form (``BoundRecipe.spec``) spells out every option of the recipe itself, and those options
of the loss that differ from the framework's default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from iscope.errors import UsageError
from iscope.recipes.model import (
    BoundRecipe,
    Constraint,
    Filter,
    Framework,
    Level,
    Loss,
    Option,
    Recipe,
    Ref,
    WeightRule,
)
from iscope.recipes.options import Value, check_value, find_option, read_value, spell
from iscope.recipes.registry import find


@dataclasses.dataclass(frozen=True)
class _Given:
    """An option's value as the user gave it, and under which name: ``as clip_max``, ``by position``."""

    option: Option
    value: object
    how: str


def parse(text: str) -> BoundRecipe:
    """Return the recipe that ``text`` names, with its options bound.

    Args:
        text: ``NAME`` or ``NAME:option=value,...``, as on the command line.

    Raises:
        UsageError: when the name, an option, a value or their combination is not accepted.
    """
    name, colon, rest = text.partition(":")
    framework, row = find(name.strip())
    if colon and not rest.strip():
        raise UsageError(f"{row.name}: nothing follows the colon; write {row.name!r} alone for its defaults.")
    return _bind(row, framework, _read(row, framework, rest) if colon else ())


def bind(row: Recipe, framework: Framework, options: Mapping[str, object]) -> BoundRecipe:
    """Return the recipe of a row with these options, the framework's defaults for the others.

    Args:
        row: a row of the framework's table.
        framework: the framework, for its loss options.
        options: values by full name, short form or alias; None is no bound.

    Raises:
        UsageError: when an option, a value or their combination is not accepted.
    """
    known = (*row.options, *framework.loss_options)
    given = (_Given(find_option(row.name, known, name), value, f"as {name}") for name, value in options.items())
    return _bind(row, framework, given)


def describe(constraint: Constraint) -> str:
    """Return a constraint in words, without a full stop."""
    if constraint.kind == "any":
        return f"at least one of {' and '.join(constraint.options)} must be set"
    low, high = constraint.options
    return f"{low} must {'be below' if constraint.kind == 'less' else 'not exceed'} {high}"


def _read(row: Recipe, framework: Framework, text: str) -> Iterator[_Given]:
    """Yield the options of ``a,b,name=c``."""
    known = (*row.options, *framework.loss_options)
    named = False
    for position, piece in enumerate(piece.strip() for piece in text.split(",")):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not piece:
            raise UsageError(f"{row.name}: there is an empty option in {text!r}; separate options with one comma.")
        if not equals and named:
            raise UsageError(f"{row.name}: {piece!r} follows a named option; write it as option=value.")
        named = bool(equals)
        option = find_option(row.name, known, name) if named else _positional(row, position, piece)
        yield _Given(option, read_value(option, value if named else piece), f"as {name}" if named else "by position")


def _positional(row: Recipe, position: int, piece: str) -> Option:
    if position < len(row.options):
        return row.options[position]
    names = ", ".join(option.short for option in row.options)
    takes = f"at most {len(row.options)} values by position ({names})" if names else "no values by position"
    raise UsageError(f"{row.name} takes {takes}; {piece!r} is one too many.")


def _bind(row: Recipe, framework: Framework, given: Iterable[_Given]) -> BoundRecipe:
    said: dict[str, str] = {}
    values: dict[str, Value] = {option.short: option.default for option in (*row.options, *framework.loss_options)}
    for item in given:
        short = item.option.short
        if short in said:
            raise UsageError(f"{row.name}: {short} is given twice, {said[short]} and {item.how}.")
        said[short] = item.how
        values[short] = check_value(row.name, item.option, item.value)
    for constraint in row.constraints:
        _check(row.name, constraint, values, said)
    weight = _fill(_weight_rule(row, values), values)
    filters: list[Filter] = [_fill(rule, values) for rule in row.filters]
    return BoundRecipe(
        name=row.name,
        framework=framework.name,
        spec=_spec(row, framework, values),
        options=values,
        weight=dataclasses.replace(weight, level=Level(weight.level)),
        filters=tuple(rule for rule in filters if rule.low is not None or rule.high is not None),
        loss=_fill(row.loss or _loss_of_type(framework, values), values),
        row=row,
    )


def _weight_rule(row: Recipe, values: Mapping[str, Value]) -> WeightRule:
    if row.weight_if_set is not None and values[row.weight_if_set[0]] is not None:
        return row.weight_if_set[1]
    return row.weight


def _loss_of_type(framework: Framework, values: Mapping[str, Value]) -> Loss:
    losses = dict(framework.losses)
    return losses[str(values["loss_type"])] if "loss_type" in values else next(iter(losses.values()))


def _check(recipe: str, constraint: Constraint, values: Mapping[str, Value], said: Mapping[str, str]) -> None:
    numbers = [value for name in constraint.options if isinstance(value := values[name], int | float)]
    if constraint.kind == "any":
        if not numbers:
            raise UsageError(f"{recipe}: {describe(constraint)}, but all are none.")
        return
    if len(numbers) < 2 or numbers[0] < numbers[1] or (constraint.kind == "at_most" and numbers[0] == numbers[1]):
        return
    found = (
        f"{name} is {spell(values[name])}" + ("" if name in said else " by default") for name in constraint.options
    )
    raise UsageError(f"{recipe}: {describe(constraint)}, but {' and '.join(found)}.")


def _fill(node: Any, values: Mapping[str, Value]) -> Any:
    """Replace every ``Ref`` in a tree of dataclasses by the value of its option."""
    if isinstance(node, Ref):
        value = values[node.option]
        if value is None and node.otherwise is not None:
            value = values[node.otherwise]
        return value * node.scale + node.offset if isinstance(value, float) else value
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = {part.name: _fill(getattr(node, part.name), values) for part in dataclasses.fields(node)}
        return dataclasses.replace(node, **parts)
    return node


def _spec(row: Recipe, framework: Framework, values: Mapping[str, Value]) -> str:
    changed = (option for option in framework.loss_options if values[option.short] != option.default)
    shown = ",".join(f"{option.short}={spell(values[option.short])}" for option in (*row.options, *changed))
    return f"{row.name}:{shown}" if shown else row.name
