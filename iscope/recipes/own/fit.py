"""Whether the parts of an own recipe fit its options, and each other, once the options are filled in."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from iscope.errors import UsageError
from iscope.place import shown
from iscope.recipes.grammar import bind
from iscope.recipes.model import (
    Aggregation,
    BoundRecipe,
    BySign,
    Filter,
    Framework,
    Level,
    Loss,
    Option,
    Recipe,
    WeightRule,
)
from iscope.recipes.own.decode import decode
from iscope.recipes.own.encode import encode
from iscope.recipes.own.where import Where

# What a loss type cannot do without.
_REQUIRED = {
    "sapo": ("temperature",),
    "vespo": ("power", "rate"),
    "dppo": ("divergence", "low", "high"),
    "geo_mean": ("low", "high"),
    "group_contrast": ("temperature",),
    "function": ("function",),
}


def check_fit(row: Recipe, table: Framework, where: Where) -> None:
    """Refuse a recipe that cannot be replayed at its defaults, or with one of the few values of one of its options.

    Args:
        row: the recipe, its types checked.
        table: the framework whose loss options it takes; their values are tried too where the recipe is a row of it.
        where: where it stands.

    Raises:
        UsageError: when a part gets what it cannot take, or lacks something.
    """
    if row.filter_list is not None and not set(row.filter_list.two_sided) <= {
        rule.name for rule in row.filter_list.table
    }:
        raise where.at("filter_list.two_sided").error("it names a filter that its table does not have")
    for values in _settings((*row.options, *(table.loss_options if row.framework is None else ()))):
        bound = _bound(row, table, values, where)
        if bound is not None:
            _check(bound, where)


def _settings(options: Iterable[Option]) -> Iterator[Mapping[str, object]]:
    """The defaults, and each value of each option that is one of a few."""
    yield {}
    for option in options:
        values = {"choice": option.choices, "bool": (True, False), "names": option.choices}.get(option.kind, ())
        yield from ({option.short: value} for value in values)


def _bound(row: Recipe, table: Framework, values: Mapping[str, object], where: Where) -> BoundRecipe | None:
    """The recipe with these options; None where they are refused for what they are, and not for how it is made."""
    try:
        return bind(row, table, values)
    except UsageError as error:
        if not values:
            said = str(error).removeprefix(f"{row.name}: ").rstrip(".")
            raise where.error(f"it cannot be replayed at its defaults: {said}") from error
        return None
    except KeyError as error:
        said = f"there is no {shown(error.args[0])} among its options, or among the parts that one of them chooses from"
        raise where.error(said) from error
    except (ValueError, TypeError, AssertionError, AttributeError, ZeroDivisionError) as error:
        given = "".join(f" with {name}={value}" for name, value in values.items())
        raise where.error(f"its parts do not fit its options{given} ({type(error).__name__}: {error})") from error


def _check(bound: BoundRecipe, where: Where) -> None:
    """With the options filled in, everything has to be of its type."""
    place = dataclasses.replace(where, values_only=True)
    decode(WeightRule, encode(bound.weight), place.at("weight"))
    if bound.weight.function is not None and bound.weight.level is Level.NONE:
        raise where.at("weight").error("a function gives a weight at level token, sequence or geometric, not at none")
    for index, rule in enumerate(bound.filters):
        home = place.at("filters").at(index)
        decode(Filter, encode(rule), home)
        if rule.function is not None and rule.space == "log":
            raise home.error("what a function gives is compared as it is, not in log space")
    decode(Loss, encode(bound.loss), place.at("loss"))
    _check_loss(bound.loss, where.at("loss"))


def _check_loss(loss: Loss, where: Where) -> None:
    missing = [name for name in _REQUIRED.get(loss.type, ()) if getattr(loss, name) is None]
    if missing:
        raise where.error(f"type {loss.type} needs {' and '.join(missing)}")
    for name in ("temperature", "power", "rate"):
        numbers = getattr(loss, name)
        if isinstance(numbers, BySign) and None in (numbers.positive, numbers.negative):
            raise where.at(name).error("it must be a number for either sign, not none")
    if loss.influence is not None and loss.influence.half_life is None:
        raise where.at("influence.half_life").error("it must be a number, not none")
    if loss.logs.tracked and loss.type != "sapo" and None in (loss.low, loss.high):
        raise where.at("logs").error("tracked needs low and high")
    if loss.function is not None and loss.type != "function":
        raise where.error("a function is the loss only with type = 'function'")
    if loss.aggregation is Aggregation.SEQ_MEAN_TOKEN_SUM_NORM and loss.denominator.norm_length is None:
        raise where.error(f"aggregation {loss.aggregation} needs norm_length in its denominator")
