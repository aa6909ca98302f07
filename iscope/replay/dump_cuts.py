"""What recipes have to know of a whole batch before its tokens, over a dump that comes in parts.

Filters with a bound on the batch's mean need to know where they cut, losses that couple the rollouts of a group what
each rollout's share is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl
import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe, Filter, bound_value
from iscope.replay.aggregation import dropped_tokens
from iscope.replay.contrast import Contrast, GroupSums, Shares
from iscope.replay.correction import correct
from iscope.replay.cuts import BatchCuts, Cuts
from iscope.replay.filters import statistic
from iscope.replay.groups import Groups
from iscope.replay.view import TokenView

RowCuts = dict[Filter | Contrast, Cuts | Shares]


class DumpCuts:
    """Collects what is tested and compared over whole batches, rollouts in the dump's order."""

    def __init__(self, recipes: Iterable[BoundRecipe]) -> None:
        """Take the recipes whose filters and losses are looked at."""
        self._found: dict[Filter, BatchCuts] = {}
        self._sums: dict[Contrast, GroupSums] = {}
        self._recipes: dict[Contrast, BoundRecipe | None] = {}
        self._groups = Groups()
        for recipe in recipes:
            for rule in recipe.filters:
                bound = bound_value(rule.mean_high)
                if bound is not None:
                    self._found[rule] = BatchCuts(bound)
            if recipe.loss.couples_rollouts:
                self._recipes[Contrast.of(recipe.loss)] = None
                own = Contrast.of(recipe.loss, recipe.filters)
                self._recipes[own] = recipe if own.filters else None

    @property
    def needed(self) -> bool:
        """Whether there is such a filter or loss."""
        return bool(self._found or self._recipes)

    def add(self, view: TokenView, places: Tensor, columns: pl.DataFrame) -> None:
        """Add N rollouts.

        Args:
            view: their tokens.
            places: int64 [N], the batch that each belongs to.
            columns: their columns, N rows, with ``group_id`` where there is one.
        """
        for rule, found in self._found.items():
            found.add(statistic(view, rule).double(), view.segments, places)
        groups = self._groups.numbers(columns, places) if self._recipes else None
        if groups is None or view.advantage is None:
            return
        for contrast, recipe in self._recipes.items():
            sums = self._sums.setdefault(contrast, GroupSums(contrast.temperature))
            sums.add(*_compared(view, contrast, recipe), groups)

    def cuts(self) -> RowCuts:
        """Return, by filter and contrast, what it is for each rollout added; no contrast without groups or A."""
        cuts: RowCuts = {rule: found.cuts() for rule, found in self._found.items()}
        return cuts | {contrast: sums.shares() for contrast, sums in self._sums.items()}


def _compared(view: TokenView, contrast: Contrast, recipe: BoundRecipe | None) -> tuple[Tensor, Tensor, Tensor]:
    """Mean log-ratio of each rollout [N], whether it is on the side of A > 0, and whether it has tokens."""
    dropped = None if recipe is None else dropped_tokens(view, recipe, correct(view, recipe))
    left = view if dropped is None else view.only(~dropped)
    filled = left.segments.lengths > 0
    return left.segments.mean(left.exact(contrast.pair)), left.segments.sum(left.token_advantage) > 0, filled


def own_cuts(view: TokenView, recipes: Iterable[BoundRecipe], columns: pl.DataFrame) -> RowCuts:
    """Return what there is to know where the rollouts of a view are the batch."""
    found = DumpCuts(recipes)
    if found.needed:
        found.add(view, torch.zeros(view.segments.rows, dtype=torch.int64), columns)
    return cuts_on(found.cuts(), view.device)


def cuts_on(cuts: Mapping[Filter | Contrast, Cuts | Shares], device: torch.device) -> RowCuts:
    """Return them on a device."""
    return {rule: found.to(device) for rule, found in cuts.items()}


def cuts_of(cuts: Mapping[Filter | Contrast, Cuts | Shares], rows: slice | Tensor) -> RowCuts:
    """Return those of some rollouts."""
    return {rule: found[rows] for rule, found in cuts.items()}
