"""The grammar of a recipe, ``NAME`` or ``NAME:option=value,...``, and the binding of its options.

Leading values without a name are positional, in the order in which the recipe declares its own options. ``none`` is
no bound. The canonical form (``BoundRecipe.spec``) spells out every option of the recipe itself, and those options
of the loss that differ from the framework's default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from iscope.errors import UsageError
from iscope.recipes.lists import LIST_KINDS, listed_filters, part_of
from iscope.recipes.model import (
    BoundRecipe,
    ByOption,
    Constraint,
    Filter,
    Framework,
    Level,
    Loss,
    Option,
    Recipe,
    Reduction,
    Ref,
    WeightRule,
)
from iscope.recipes.options import Value, check_value, find_option, is_set, read_value, spell
from iscope.recipes.registry import find, refuse

# What neither names an option nor has parts; a loss is mostly made of it.
_PLAIN = frozenset({str, int, float, bool, type(None)})
# The fields of each kind of node that was met: to ask for them each time takes longer than all else.
_NAMES: dict[type, tuple[str, ...]] = {}


class _Given(NamedTuple):
    """An option's value as the user gave it, and under which name: ``as clip_max``, ``by position``."""

    option: Option
    value: object
    how: str


def parse(text: str, own: Mapping[str, Recipe] | None = None) -> BoundRecipe:
    """Return the recipe that ``text`` names, with its options bound.

    Args:
        text: ``NAME`` or ``NAME:option=value,...``, as on the command line.
        own: further recipes that can be named, by name, such as those of a file.

    Raises:
        UsageError: when the name, an option, a value or their combination is not accepted.
    """
    name, colon, rest = text.partition(":")
    framework, row = find(name.strip(), own)
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
    given = (_Given(_option(row, framework, name), value, f"as {name}") for name, value in options.items())
    return _bind(row, framework, given)


def rows_of(recipe: BoundRecipe) -> tuple[WeightRule, tuple[Filter | None, ...]]:
    """Return the rules of a recipe as they stand in its row, their bounds still named by options.

    Returns:
        The weight rule, and an entry for each of the recipe's filters; None for one that an option lists.
    """
    values, row = recipe.options, recipe.row
    alternatives = [_alternative(rule, values) for rule in row.filters]
    written = [rule for rule in alternatives if rule is not None and _has_bound(_fill(rule, values))]
    listed = (None,) * (len(recipe.filters) - len(written))
    weight = _alternative(_weight_rule(row, values), values)
    low, high = (_alternative(bound, values) for bound in (weight.low, weight.high))
    return dataclasses.replace(weight, low=low, high=high), (*written, *listed)


def _alternative(node: Any, values: Mapping[str, Value]) -> Any:
    while isinstance(node, ByOption):
        node = _part(node, values)
    return node


def describe(constraint: Constraint) -> str:
    """Return a constraint in words, without a full stop."""
    if constraint.when is not None:
        name, value = constraint.when
        return f"with {name}={spell(value)} {describe(dataclasses.replace(constraint, when=None))}"
    named = " and ".join(constraint.options)
    if constraint.kind == "any":
        return f"{named} must be set" if len(constraint.options) == 1 else f"at least one of {named} must be set"
    if constraint.kind == "positive":
        return f"{named} must be above 0"
    if constraint.kind == "not_negative":
        return f"{named} must not be below 0"
    if constraint.kind == "above_one":
        return f"{named} must be above 1"
    if constraint.kind == "not":
        return f"{named} must not be {spell(constraint.value)}"
    if constraint.kind == "exclusive":
        return f"only one of {named} may be set"
    if constraint.kind == "needs":
        return " needs ".join(constraint.options)
    low, high = constraint.options
    return f"{low} must {'be below' if constraint.kind == 'less' else 'not exceed'} {high}"


def _read(row: Recipe, framework: Framework, text: str) -> Iterator[_Given]:
    """Yield the options of ``a,b,name=c``."""
    named, found = False, list[tuple[Option, str, str]]()
    for position, piece in enumerate(piece.strip() for piece in text.split(",")):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not piece:
            raise UsageError(f"{row.name}: there is an empty option in {text!r}; separate options with one comma.")
        if not equals and named and found[-1][0].kind in LIST_KINDS:
            option, before, how = found[-1]
            found[-1] = option, f"{before},{piece}", how
            continue
        if not equals and named:
            raise UsageError(f"{row.name}: {piece!r} follows a named option; write it as option=value.")
        named = bool(equals)
        option = _option(row, framework, name) if named else _positional(row, position, piece)
        found.append((option, value, f"as {name}") if named else (option, piece, "by position"))
    for option, value, how in found:
        yield _Given(option, read_value(option, value), how)


def _option(row: Recipe, framework: Framework, name: str) -> Option:
    refuse(framework, name)
    return find_option(row.name, (*row.options, *framework.loss_options), name)


def _positional(row: Recipe, position: int, piece: str) -> Option:
    if position < len(row.options):
        return row.options[position]
    names = ", ".join(option.short for option in row.options)
    takes = f"at most {len(row.options)} values by position ({names})" if names else "no values by position"
    raise UsageError(f"{row.name} takes {takes}; {piece!r} is one too many.")


def _bind(row: Recipe, framework: Framework, given: Iterable[_Given]) -> BoundRecipe:
    said: dict[str, str] = {}
    values = _defaults(row, framework)
    for item in given:
        short = item.option.short
        if short in said:
            raise UsageError(f"{row.name}: {short} is given twice, {said[short]} and {item.how}.")
        said[short] = item.how
        if item.option.kind == "choice":
            refuse(framework, str(item.value))
        values[short] = check_value(row.name, item.option, item.value)
    for constraint in (*row.constraints, *framework.constraints):
        _check(row.name, constraint, values, said)
    rule = _weight_rule(row, values)
    filled: list[Filter | None] = [_fill(rule, values) for rule in row.filters]
    listed = () if row.filter_list is None else listed_filters(row.name, row.filter_list, values)
    filters = _in_force([*filled, *listed])
    weight = _seen(_fill(rule, values), filters)
    weight = dataclasses.replace(weight, level=Level(str(weight.level)))
    loss = row.loss or _loss_of_type(framework, values)
    if weight.function is not None and loss.gradient_through == "weight":
        raise UsageError(
            f"{row.name}: its weight is a function, whose derivative is not known, but the gradient of its loss, of "
            f"type {loss.type}, runs through the weight; take a loss that holds the weight constant."
        )
    read = {"loss_type", *_references((rule, row.filters, loss), values)}
    bound_loss = dataclasses.replace(_fill(loss, values), weighted=weight.level is not Level.NONE and weight.applied)
    if bound_loss.logs_weight and weight.sign < 0:
        raise UsageError(
            f"{row.name}: with an upper bound below 0 its weights have no logarithm, which its loss, of type "
            f"{bound_loss.type}, takes; set a bound above 0."
        )
    return BoundRecipe(
        name=row.name,
        framework=framework.name,
        spec=_spec(row, framework, values),
        options=values,
        weight=weight,
        filters=filters,
        loss=bound_loss,
        row=row,
        given=tuple(said),
        unused=tuple(
            option.short
            for option in framework.loss_options
            if values[option.short] != option.default and option.short not in read
        ),
    )


def _defaults(row: Recipe, framework: Framework) -> dict[str, Value]:
    """The values in force where none is given, by short name."""
    return {option.short: option.default for option in (*row.options, *framework.loss_options)} | dict(row.defaults)


def _weight_rule(row: Recipe, values: Mapping[str, Value]) -> WeightRule:
    if row.weight_if_set is not None and values[row.weight_if_set[0]] is not None:
        return row.weight_if_set[1]
    return row.weight


def _loss_of_type(framework: Framework, values: Mapping[str, Value]) -> Loss:
    losses = dict(framework.losses)
    return losses[str(values["loss_type"])] if "loss_type" in values else next(iter(losses.values()))


def _check(recipe: str, constraint: Constraint, values: Mapping[str, Value], said: Mapping[str, str]) -> None:
    if constraint.when is not None and values[constraint.when[0]] != constraint.when[1]:
        return
    given = {name: values[name] for name in constraint.options}
    numbers = {name: value for name, value in given.items() if isinstance(value, int | float)}
    match constraint.kind:
        case "any":
            if not numbers:
                which = "it is" if len(given) == 1 else "all are"
                raise UsageError(f"{recipe}: {describe(constraint)}, but {which} none.")
            return
        case "positive":
            broken = [name for name, number in numbers.items() if number <= 0]
        case "not_negative":
            broken = [name for name, number in numbers.items() if number < 0]
        case "above_one":
            broken = [name for name, number in numbers.items() if number <= 1]
        case "not":
            broken = [name for name, value in given.items() if value == constraint.value]
        case "exclusive" | "needs":
            broken = _clashing(constraint, [name for name, value in given.items() if is_set(value)])
        case _:
            broken = _out_of_order(constraint, numbers)
    if broken:
        found = (f"{name} is {spell(values[name])}" + ("" if name in said else " by default") for name in broken)
        remedy = f"; {constraint.remedy}" if constraint.remedy else ""
        raise UsageError(f"{recipe}: {describe(constraint)}, but {' and '.join(found)}{remedy}.")


def _clashing(constraint: Constraint, found: list[str]) -> list[str]:
    if constraint.kind == "exclusive":
        return found if len(found) > 1 else []
    return list(constraint.options) if found == [constraint.options[0]] else []


def _out_of_order(constraint: Constraint, numbers: Mapping[str, float]) -> list[str]:
    if len(numbers) < len(constraint.options):
        return []
    low, high = numbers.values()
    fine = low <= high if constraint.kind == "at_most" else low < high
    return [] if fine else list(numbers)


def _in_force(rules: Iterable[Filter | None]) -> tuple[Filter, ...]:
    """The filters that have a bound; nothing comes before the first, so it sees the loss mask as it came."""
    filters = [rule for rule in rules if rule is not None and _has_bound(rule)]
    if not filters:
        return ()
    return (dataclasses.replace(filters[0], sees="original"), *filters[1:])


def _has_bound(rule: Filter) -> bool:
    return any(bound is not None for bound in (rule.low, rule.high, rule.mean_high))


def _seen(weight: WeightRule, filters: Iterable[Filter]) -> WeightRule:
    """The weight rule; where no filter tests single tokens, it sees the loss mask as it came."""
    tested = any(rule.reduction is Reduction.TOKEN for rule in filters)
    return weight if tested else dataclasses.replace(weight, sees="original")


def _references(node: Any, values: Mapping[str, Value]) -> Iterator[str]:
    """Options that a tree of dataclasses and tuples names, of its alternatives those in force only."""
    if isinstance(node, ByOption):
        yield node.option
        yield from _references(_part(node, values), values)
    elif isinstance(node, Ref):
        yield node.option
        if isinstance(node.otherwise, str):
            yield node.otherwise
        else:
            yield from _references(node.otherwise, values)
    else:
        for part in _parts(node):
            if type(part) not in _PLAIN:
                yield from _references(part, values)


def _fill(node: Any, values: Mapping[str, Value]) -> Any:
    """Replace every ``Ref`` and ``ByOption`` in a tree of dataclasses by what its option gives."""
    if isinstance(node, ByOption):
        return _fill(_part(node, values), values)
    if isinstance(node, Ref):
        return _value(node, values)
    parts = _parts(node)
    filled = tuple(part if type(part) in _PLAIN else _fill(part, values) for part in parts)
    if all(new is old for new, old in zip(filled, parts, strict=True)):
        return node
    if isinstance(node, tuple):
        return filled
    return dataclasses.replace(node, **dict(zip(_names(node), filled, strict=True)))


def _parts(node: Any) -> tuple[Any, ...]:
    """The parts of a tuple or a dataclass; of anything else none."""
    return node if isinstance(node, tuple) else tuple([getattr(node, name) for name in _names(node)])


def _names(node: Any) -> tuple[str, ...]:
    """The fields of a dataclass; none of anything else."""
    kind = type(node)
    if kind not in _NAMES:
        _NAMES[kind] = tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
    return _NAMES[kind]


def _part(node: ByOption, values: Mapping[str, Value]) -> Any:
    value, parts = values[node.option], dict(node.parts)
    return parts[value] if value in parts or node.otherwise is None else node.otherwise


def _value(ref: Ref, values: Mapping[str, Value]) -> Value:
    value, otherwise = values[ref.option], ref.otherwise
    if value is None and isinstance(otherwise, Ref):
        return _value(otherwise, values)
    if value is None and isinstance(otherwise, str):
        value = values[otherwise]
    if ref.part is not None:
        value = part_of(value, ref.part)
    if not isinstance(value, float):
        return value
    return (1 / value if ref.reciprocal else value) * ref.scale + ref.offset


def _spec(row: Recipe, framework: Framework, values: Mapping[str, Value]) -> str:
    before = _defaults(row, framework)
    changed = (option for option in framework.loss_options if values[option.short] != before[option.short])
    shown = ",".join(f"{option.short}={spell(values[option.short])}" for option in (*row.options, *changed))
    return f"{row.name}:{shown}" if shown else row.name
