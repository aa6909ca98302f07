"""Which options make a rule of a table the rule that is wanted: the rule's references, solved for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from iscope.recipes.model import ByOption, BySign, Denominator, Loss, Penalty, PositiveNLL, Ref
from iscope.recipes.options import Value

# What tells losses apart in empty rollouts, in rounding, or in what is logged only.
_ASIDE = {
    Loss: {"clamp", "logs", "weighted"},
    Denominator: {"batch_size", "batch_tokens", "count_epsilon", "counts", "counts_dropped", "epsilon", "fills_empty"},
    BySign: {"float32"},
}
_DIGITS = 12


def solve(rule: Any, wanted: Any) -> Iterator[dict[str, Value]]:
    """Yield options, by short name, under which a rule with references is the one wanted.

    Args:
        rule: a tree of dataclasses, with references to options.
        wanted: a tree of values.
    """
    if isinstance(rule, ByOption):
        for value, part in rule.parts:
            for found in solve(part, wanted):
                yield {rule.option: value, **found}
    elif isinstance(rule, Penalty | PositiveNLL) and wanted is None:
        yield from solve(rule.coefficient, 0.0)
    elif isinstance(rule, Ref):
        yield from _solved(rule, wanted)
    elif dataclasses.is_dataclass(rule) and type(rule) is type(wanted):
        yield from _fields(rule, wanted)
    elif rule == wanted and isinstance(rule, bool) == isinstance(wanted, bool):
        yield {}


def _fields(rule: Any, wanted: Any) -> Iterator[dict[str, Value]]:
    aside = _ASIDE.get(type(rule), set())
    partial: list[dict[str, Value]] = [{}]
    for field in dataclasses.fields(rule):
        if field.name in aside:
            continue
        found = list(solve(getattr(rule, field.name), getattr(wanted, field.name)))
        partial = [one | other for one in partial for other in found if _agree(one, other)]
    yield from partial


def _agree(one: dict[str, Value], other: dict[str, Value]) -> bool:
    return all(one[name] == value for name, value in other.items() if name in one)


def _solved(rule: Ref, wanted: Any) -> Iterator[dict[str, Value]]:
    if rule.part is not None or dataclasses.is_dataclass(wanted):
        return
    if isinstance(wanted, float | int) and not isinstance(wanted, bool):
        if not rule.scale or (rule.reciprocal and not wanted):
            return
        number = (wanted - rule.offset) / rule.scale
        yield {rule.option: round(1 / number if rule.reciprocal else number, _DIGITS)}
    else:
        yield {rule.option: wanted}
