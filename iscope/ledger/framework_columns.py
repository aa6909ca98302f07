"""Columns that single frameworks' metrics need: sums of a pair's quantities, once for all recipes that share them."""

from __future__ import annotations

from torch import Tensor

from iscope.ledger.plan import Plan
from iscope.recipes.model import Pair
from iscope.recipes.registry import framework
from iscope.replay.sums import SUMS
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]


def measure_frameworks(view: TokenView, plan: Plan) -> Columns:
    """Sum what the frameworks of a plan's recipes log over the tokens of each rollout [N], float64.

    Args:
        view: the tokens of whole rollouts.
        plan: the plan.
    """
    wanted = dict.fromkeys(
        (view.resolve(recipe.weight.pair if pair is None else pair), name)
        for recipe in plan.recipes
        for name, pair in framework(recipe.framework).sums
    )
    return {f"{pair}:{name}_sum": _sum(view, pair, name) for pair, name in wanted}


def _sum(view: TokenView, pair: Pair, name: str) -> Tensor:
    return view.segments.sum(SUMS[name](view, pair))
