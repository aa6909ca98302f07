"""What a recipe is: a weight rule, a list of filters, a loss type and an aggregation. Data only, no torch.

A framework is a table of ``Recipe`` rows. A row leaves its bounds open by naming the option that fills them
(``Ref("clip_max")``); ``iscope.recipes.grammar`` binds options and returns a ``BoundRecipe``, which has values only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from iscope.recipes.losses import Aggregation, BySign, Denominator, Influence, Loss, LossLogs, Penalty, PositiveNLL
from iscope.recipes.rules import (
    ByOption,
    Filter,
    Function,
    Level,
    LogClamp,
    Number,
    Pair,
    Quantity,
    Reduction,
    Ref,
    Signs,
    WeightRule,
    bound_value,
    by_option,
)

__all__ = [
    "Aggregation",
    "BoundRecipe",
    "ByOption",
    "BySign",
    "Constraint",
    "Denominator",
    "Filter",
    "FilterList",
    "Framework",
    "Function",
    "Influence",
    "Level",
    "LogClamp",
    "Loss",
    "LossLogs",
    "Number",
    "Option",
    "Pair",
    "Penalty",
    "PositiveNLL",
    "Quantity",
    "Recipe",
    "Reduction",
    "Ref",
    "Signs",
    "WeightRule",
    "bound_value",
    "by_option",
]


_PLAIN = WeightRule()


@dataclass(frozen=True)
class Option:
    """One option of a recipe under the framework's own name.

    Attributes:
        name: the framework's full name, canonical.
        short: the short form that reports use.
        kind: how its value is parsed. ``pair``: a bound, or two as ``0.5_2``; ``names``: some choices, with commas;
            ``pairs``: pairs with commas.
        default: the framework's default.
        doc: one line.
        aliases: other accepted names (deprecated, proposed).
        choices: the accepted words of a ``choice`` or of ``names``.
        nullable: whether ``none`` (no bound) is accepted.
    """

    name: str
    short: str
    kind: Literal["float", "int", "bool", "choice", "pair", "names", "pairs"]
    default: float | int | bool | str | None
    doc: str
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    nullable: bool = False


@dataclass(frozen=True)
class FilterList:
    """Filters that an option lists by name, each with bounds of its own from a second option.

    Attributes:
        names: the option that lists them, or their names.
        bounds: the option with their bounds: one for all, or one for each.
        table: the filters there are, by name, without bounds.
        two_sided: names of those that have a lower bound too; with one bound alone it is its reciprocal.
    """

    names: Ref | tuple[str, ...]
    bounds: Ref
    table: tuple[Filter, ...]
    two_sided: tuple[str, ...] = ()


@dataclass(frozen=True)
class Constraint:
    """A condition on options that the framework itself enforces, or without which a formula has no value.

    Attributes:
        kind: ``less``: the first stays below the second where both are set; ``at_most``: below or equal; ``any``: at
            least one is set; ``positive``: each is above 0 where it is set; ``not_negative``: not below 0;
            ``above_one``: above 1; ``not``: none is ``value``; ``exclusive``: at most one is set, false counting as
            not set; ``needs``: the second is set where the first is.
        options: short names.
        value: the value that ``not`` refuses.
        remedy: what to do instead, if there is more to say than the condition.
        when: an option and the value of it at which the condition holds; None is always.
    """

    kind: Literal["less", "at_most", "any", "positive", "not_negative", "above_one", "not", "exclusive", "needs"]
    options: tuple[str, ...]
    value: str | bool | None = None
    remedy: str = ""
    when: tuple[str, str | bool] | None = None


@dataclass(frozen=True)
class Recipe:
    """One row of a framework's table.

    Attributes:
        name: ``framework/mode``, or a bare name for a generic recipe.
        summary: one line.
        formula: the rule in plain text, options by their short names.
        source: framework, version and option, or the paper.
        options: its own options, in positional order.
        weight: the weight rule.
        filters: in the order they are applied.
        filter_list: further filters, which an option lists; they come last.
        loss: the loss on top; None takes the one that the framework's ``loss_type`` option names.
        weight_if_set: an option, and the weight rule in force instead when it is not none.
        constraints: conditions between options.
        notes: traps worth knowing.
        framework: of a recipe that is in no framework's table, the framework whose loss options and loss types it
            takes; empty for the generic ones. None for a row of a framework's table.
        defaults: options, by short name, with the value in force unless another is given, where that is not the
            framework's default.
        base: the row of a framework's table that it is but for name and defaults; empty where there is none.
    """

    name: str
    summary: str
    formula: str
    source: str
    options: tuple[Option, ...] = ()
    weight: WeightRule = _PLAIN
    filters: tuple[Filter, ...] = ()
    filter_list: FilterList | None = None
    loss: Loss | None = None
    weight_if_set: tuple[str, WeightRule] | None = None
    constraints: tuple[Constraint, ...] = ()
    notes: tuple[str, ...] = ()
    framework: str | None = None
    defaults: tuple[tuple[str, float | bool | str | None], ...] = ()
    base: str = ""


@dataclass(frozen=True)
class Framework:
    """A framework's table: its recipes and the loss options that every one of them takes.

    Attributes:
        name: the prefix of its recipes; empty for the generic ones.
        title: how the framework writes its own name.
        version: the version its rows were read from.
        recipes: the rows.
        loss_options: options of the loss, accepted by every recipe.
        losses: the losses its ``loss_type`` option chooses from; a single one needs no option.
        constraints: conditions on the loss options.
        sums: per-token quantities (``iscope.replay.sums``) whose sums its metrics need, and of which pair; None is the
            pair of the recipe's weight.
        not_replayed: modes, loss types and options of the framework that iscope does not replay, each with the reason.
    """

    name: str
    title: str
    version: str
    recipes: tuple[Recipe, ...]
    loss_options: tuple[Option, ...] = ()
    losses: tuple[tuple[str, Loss], ...] = (("", Loss()),)
    constraints: tuple[Constraint, ...] = ()
    sums: tuple[tuple[str, Pair | None], ...] = ()
    not_replayed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class BoundRecipe:
    """A recipe with every option filled in: the thing that is replayed.

    Attributes:
        name: the row's name.
        framework: the framework's name.
        spec: the canonical full form, which parses back to this recipe.
        options: every option in force under its short name.
        weight: the weight rule, values only.
        filters: the filters, values only; a filter without a bound is left out.
        loss: the loss, values only.
        row: the row it came from.
        named: True where a user asked for it by name.
        like: the configuration it was read from, ``trl:args.json``; empty where it came from none.
        unused: loss options, by short name, that are away from their default but that the chosen loss does not read.
        given: options, by short name, that were given and not left at their default.
        fitted: those whose value is a quantile of the dump.
    """

    name: str
    framework: str
    spec: str
    options: dict[str, Any] = field(hash=False)
    weight: WeightRule
    filters: tuple[Filter, ...]
    loss: Loss
    row: Recipe
    named: bool = False
    like: str = ""
    unused: tuple[str, ...] = ()
    given: tuple[str, ...] = field(default=(), compare=False)
    fitted: tuple[str, ...] = ()

    @property
    def imitated(self) -> str:
        """The name of the framework's row that it is, whatever it calls itself."""
        return self.row.base or self.name

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions that it is made of, apart from data."""
        rules = (*self.filters, *((self.loss.gate,) if self.loss.gate is not None else ()))
        found = (self.weight.function, *(rule.function for rule in rules), self.loss.function)
        return tuple(function for function in found if function is not None)

    @property
    def needs(self) -> tuple[str, ...]:
        """Optional columns of the dump without which it cannot be replayed."""
        signed = any(rule.pushed_only or {rule.low_signs, rule.high_signs} != {Signs.ANY} for rule in self.filters)
        penalty = self.loss.penalty
        pairs = {self.weight.pair, self.loss.pair, *(rule.pair for rule in self.filters)}
        if penalty is not None and bound_value(penalty.coefficient):
            pairs.add(penalty.pair)
        ref = self.loss.signal == "ref" or Pair.CURRENT_REF in pairs
        contrasts = self.loss.couples_rollouts
        groups = self.loss.needs_groups
        found = ("advantage",) * (signed or contrasts) + ("ref_logprobs",) * ref + ("group_id",) * groups
        found += ("reward",) * self.loss.needs_reward
        return tuple(dict.fromkeys((*found, *(name for function in self.functions for name in function.needs))))
