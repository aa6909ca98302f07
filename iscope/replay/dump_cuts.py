"""Where the filters of recipes that look at a whole batch cut it, over a dump that comes in parts."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from iscope.recipes.model import BoundRecipe, Filter, bound_value
from iscope.replay.cuts import BatchCuts, Cuts
from iscope.replay.filters import statistic
from iscope.replay.view import TokenView

RowCuts = dict[Filter, Cuts]


class DumpCuts:
    """Collects what the filters with a bound on the batch's mean test, rollouts in the dump's order."""

    def __init__(self, recipes: Iterable[BoundRecipe]) -> None:
        """Take the recipes whose filters are looked at."""
        self._found: dict[Filter, BatchCuts] = {}
        for recipe in recipes:
            for rule in recipe.filters:
                bound = bound_value(rule.mean_high)
                if bound is not None:
                    self._found[rule] = BatchCuts(bound)

    @property
    def needed(self) -> bool:
        """Whether there is such a filter."""
        return bool(self._found)

    def add(self, view: TokenView, places: Tensor) -> None:
        """Add N rollouts.

        Args:
            view: their tokens.
            places: int64 [N], the batch that each belongs to.
        """
        for rule, found in self._found.items():
            found.add(statistic(view, rule).double(), view.segments, places)

    def cuts(self) -> RowCuts:
        """Return, by filter, where the batch of each rollout added is cut."""
        return {rule: found.cuts() for rule, found in self._found.items()}


def cuts_of(cuts: RowCuts, rows: slice | Tensor) -> RowCuts:
    """Return those of some rollouts."""
    return {rule: found[rows] for rule, found in cuts.items()}
