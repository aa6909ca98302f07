"""miles' metrics of its corrections and losses (commit 31f1ca961): slime's, the loss's effective size, and two more.

They are reduced as slime's are.
"""

from __future__ import annotations

import numpy as np

from iscope.analysis.frameworks import slime
from iscope.analysis.frameworks.nan import unless_nan
from iscope.analysis.frameworks.slime_means import Means
from iscope.analysis.numbers import Array
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figures
from iscope.recipes.model import Pair


def metrics(rows: RecipeRows) -> Figures:
    """Every metric miles logs for this correction and loss, but for the values of the loss itself."""
    found, means = slime.metrics(rows), Means(rows)
    if "ppo_kl" in found:
        found["ess_ratio"] = means.of_values(_effective_share(rows))
        found["train_rollout_kl"] = means.of(_divergence(rows))
        if rows.recipe.loss.pair is Pair.CURRENT_INFERENCE:
            # The old policy is the engine itself, so nothing lies between them.
            zero = means.of(np.zeros(rows.rows.rollouts))
            found |= {"train_rollout_kl": zero, "train_rollout_logprob_abs_diff": zero}
    return unless_nan(rows, found, "miles")


def _divergence(rows: RecipeRows) -> Array:
    """K3 of each rollout, over the tokens left where a filter takes some out of the mask."""
    if any(rule.masks_penalty for rule in rows.recipe.filters):
        return rows["loss.limited_k3"]
    return rows.rows.pair("limited_k3_sum", Pair.TRAINER_INFERENCE)


def _effective_share(rows: RecipeRows) -> Array:
    """(sum r)^2 / (n sum r^2) of each rollout; with gspo r is the same for all tokens."""
    if rows.recipe.loss.level == "sequence":
        return np.ones(rows.rows.rollouts)
    total, squares = (rows.rows.pair(name, rows.recipe.loss.pair) for name in ("weight_sum", "weight_sq"))
    whole = np.maximum(rows.rows.n * squares, np.finfo(np.float64).tiny)
    return np.asarray(total**2 / whole)
