"""How slime reduces what it logs (commit 624b824a, get_sum_of_sample_mean)."""

from __future__ import annotations

import numpy as np

from iscope.analysis.numbers import Array, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure

_NO_ROLLOUTS = "no rollouts"


class Means:
    """Reduces per-rollout columns of a recipe as its loss is reduced."""

    def __init__(self, rows: RecipeRows) -> None:
        """Take the rollouts of the batch, empty ones in."""
        self._n, self._rollouts = rows.rows.n, rows.rows.rollouts
        self._per_token = bool(rows.recipe.options["calculate_per_token_loss"])

    def of(self, sums: Array) -> Figure:
        """Mean of what is summed over each rollout's loss tokens [N]."""
        if self._per_token:
            return share(float(sums.sum()), float(np.maximum(self._n, 1).sum()), _NO_ROLLOUTS)
        return self.of_rollouts(sums / np.maximum(self._n, 1))

    def of_values(self, values: Array) -> Figure:
        """Mean of what is one number for a whole rollout [N], held by each of its loss tokens."""
        return self.of(np.where(self._n > 0, values * self._n, 0.0))

    def of_rollouts(self, values: Array) -> Figure:
        """Mean over all rollouts of one number each [N]; over the batch's tokens where the loss is."""
        whole = float(np.maximum(self._n, 1).sum()) if self._per_token else self._rollouts
        return share(float(values.sum()), whole, _NO_ROLLOUTS)
