"""What differs between two recipes, in words: their rules, their options, their formulas."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from iscope.recipes.model import BoundRecipe, Filter, Function, Loss, Option, Quantity
from iscope.recipes.options import Value, spell
from iscope.recipes.registry import framework

Rule = tuple[str, str, str]

# Fields of the rules in words; of the others the underscores become spaces.
_WORDS = {
    "acts_on": "rejects",
    "applied": "applied to the loss",
    "closed": "keeps what equals a bound",
    "counts": "rollouts in the mean",
    "counts_dropped": "denominator counts dropped tokens",
    "clamp": "clamp of the log-ratio",
    "drops": "shrinks mask and denominators",
    "high": "upper bound",
    "high_signs": "advantages under the upper bound",
    "low": "lower bound",
    "low_signs": "advantages under the lower bound",
    "masks_penalty": "masks the penalty too",
    "mean_high": "bound on the mean of the batch",
    "nan_kept": "keeps NaN",
    "normalise": "divided by the batch's mean",
    "norm_length": "constant length, tokens",
    "of_loss": "rejects from the loss alone",
    "pair": "policies",
    "pushed_only": "only tokens pushed further out",
    "reduction": "over the rollout",
    "sees": "sees the mask",
    "signal": "A is",
    "space": "compared in space",
}
# What changes only which metrics the ledger keeps.
_SILENT = {"logged", "cut_logged", "lag_logged", "left_logged", "tracked", "weighted", "name"}
# What is said of a filter before anything else.
_TOLD = _SILENT | {"quantity", "reduction", "space", "pair", "function"}
_NO_OPTION = "-"


@dataclasses.dataclass(frozen=True)
class Difference:
    """Two recipes side by side.

    Attributes:
        specs: their canonical full forms.
        rules: what their weight, filters and loss do differently: what, and how in either.
        options: own options, and loss options that both have or that are not at their default, where value or default
            differ: short name, and value with default in either.
        formulas: in plain text.
        sources: where they come from.
    """

    specs: tuple[str, str]
    rules: tuple[Rule, ...]
    options: tuple[Rule, ...]
    formulas: tuple[str, str]
    sources: tuple[str, str]


def difference(one: BoundRecipe, other: BoundRecipe) -> Difference:
    """Compare two recipes with their options bound."""
    losses = (_in_force(bound.loss) for bound in (one, other))
    rules = [*_walk("weight", one.weight, other.weight), *_filters(one, other), *_walk("loss", *losses)]
    return Difference(
        specs=(one.spec, other.spec),
        rules=tuple(rules),
        options=tuple(_options(one, other)),
        formulas=(one.row.formula, other.row.formula),
        sources=(one.row.source, other.row.source),
    )


def _in_force(loss: Loss) -> Loss:
    """The loss without further terms that count nothing."""
    if loss.penalty is not None and loss.penalty.coefficient == 0:
        loss = dataclasses.replace(loss, penalty=None)
    if loss.positive_nll is not None and loss.positive_nll.coefficient == 0:
        loss = dataclasses.replace(loss, positive_nll=None)
    return loss


def _filters(one: BoundRecipe, other: BoundRecipe) -> Iterator[Rule]:
    """Filters that go by the same name, then the n-th of those left on either side with each other."""
    left, right = list(one.filters), list(other.filters)
    names = [rule.name for rule in left if rule.name in {match.name for match in right}]
    for name in names:
        pair = [next(rule for rule in side if rule.name == name) for side in (left, right)]
        left.remove(pair[0])
        right.remove(pair[1])
        yield from _walk(f"filter {name}", *pair)
    for place in range(max(len(left), len(right))):
        mine, theirs = (side[place] if place < len(side) else None for side in (left, right))
        if mine is not None and theirs is not None:
            yield from _walk(f"filter {mine.name}, {theirs.name}", mine, theirs)
        else:
            yield f"filter {(mine or theirs or Filter('')).name}", _said(mine), _said(theirs)


def _walk(label: str, one: Any, other: Any) -> Iterator[Rule]:
    if one == other:
        return
    if type(one) is not type(other) or isinstance(one, Function) or not dataclasses.is_dataclass(one):
        yield label, _said(one), _said(other)
        return
    for field in dataclasses.fields(one):
        if field.name not in _SILENT:
            yield from _walk(f"{label}: {_word(field.name)}", getattr(one, field.name), getattr(other, field.name))


def _word(name: str) -> str:
    return _WORDS.get(name, name.replace("_", " "))


def _said(value: Any) -> str:
    """A value, or the fields of a part that are away from their default, in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Function):
        arguments = ", ".join(f"{name}={spell(argument)}" for name, argument in value.arguments)
        return f"{value.reference}({arguments})"
    if not dataclasses.is_dataclass(value):
        return spell(value)
    fields = ((field.name, getattr(value, field.name), field.default) for field in dataclasses.fields(value))
    head, told = (_head(value), _TOLD) if isinstance(value, Filter) else ("", _SILENT)
    said = [f"{_word(name)} {_said(part)}" for name, part, default in fields if part != default and name not in told]
    return ", ".join([*([head] if head else []), *said]) or "at its defaults"


def _head(rule: Filter) -> str:
    """What a filter tests."""
    of_log = rule.quantity is Quantity.LOG_RATIO and rule.space == "ratio"
    what = "ratio" if of_log else rule.quantity.replace("_", " ")
    return f"{rule.reduction} {what if rule.function is None else rule.function.reference} of {rule.pair}"


def _options(one: BoundRecipe, other: BoundRecipe) -> Iterator[Rule]:
    mine, theirs = _said_options(one), _said_options(other)
    loss_options = {option.short for bound in (one, other) for option in framework(bound.framework).loss_options}
    for name in dict.fromkeys((*mine, *theirs)):
        here, there = mine.get(name, _NO_OPTION), theirs.get(name, _NO_OPTION)
        of_one_at_default = name in loss_options and _NO_OPTION in (here, there) and "(" not in here + there
        if here != there and not of_one_at_default:
            yield name, here, there


def _said_options(bound: BoundRecipe) -> dict[str, str]:
    """Every option as ``value (default ...)``, by short name."""
    every = (*bound.row.options, *framework(bound.framework).loss_options)
    return {option.short: _with_default(option, bound.options[option.short]) for option in every}


def _with_default(option: Option, value: Value) -> str:
    return spell(value) if value == option.default else f"{spell(value)} (default {spell(option.default)})"
