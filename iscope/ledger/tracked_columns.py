"""Columns of what a framework tracks of its loss: count, sum, smallest and largest over each rollout."""

from __future__ import annotations

import math

from torch import Tensor

from iscope.recipes.model import BoundRecipe
from iscope.replay.losses.tracked import tracked
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]


def measure_tracked(view: TokenView, recipe: BoundRecipe) -> Columns:
    """Measure each rollout [N], under ``tracked.NAME`` int64 in tokens, and ``tracked.NAME_sum``, ``_min``, ``_max``.

    Where a rollout has no such token, smallest and largest are infinite. Nothing of a loss that is not ``tracked``.
    """
    if not recipe.loss.logs.tracked:
        return {}
    found, segments = tracked(view, recipe), view.segments
    columns = {f"tracked.{name}": segments.count(flags) for name, flags in found.counts.items()}
    for name, (values, over) in found.values.items():
        columns[f"tracked.{name}_sum"] = segments.sum(values.masked_fill(~over, 0.0))
        columns[f"tracked.{name}_min"] = segments.min(values.masked_fill(~over, math.inf))
        columns[f"tracked.{name}_max"] = segments.max(values.masked_fill(~over, -math.inf))
    return columns
