"""TRL's metrics of its losses (TRL 1.16.0 grpo_trainer), one rank: clipping, VESPO's weight, KL to the reference.

What differs per token is averaged over loss tokens; what is one number for a rollout, over rollouts, empty ones in.
"""

from __future__ import annotations

import numpy as np

from iscope.analysis.numbers import Array, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures

_NO_TOKENS = "no loss tokens"
_NO_ROLLOUTS = "no rollouts"


def loss_metrics(rows: RecipeRows) -> Figures:
    """Metrics of a recipe's loss: those whose columns the ledger has, which takes current or reference logprobs."""
    found: Figures = {}
    low, high = _column(rows, "clipped_low"), _column(rows, "clipped_high")
    if low is not None and high is not None:
        found |= {
            "clip_ratio/low_mean": _mean(rows, low),
            "clip_ratio/low_min": _extreme(rows, low, largest=False),
            "clip_ratio/high_mean": _mean(rows, high),
            "clip_ratio/high_max": _extreme(rows, high, largest=True),
            "clip_ratio/region_mean": _mean(rows, low + high),
        }
    capped, phi, kl = _column(rows, "capped"), _column(rows, "phi"), _column(rows, "kl")
    if capped is not None:
        found["cispo_clip_ratio"] = _mean(rows, capped)
    if phi is not None:
        # The weight of a rollout without loss tokens is phi(1) = 1.
        each = np.where(rows.rows.n > 0, phi / np.maximum(rows.rows.n, 1), 1.0)
        found["vespo/phi_seq_mean"] = share(float(each.sum()), rows.rows.rollouts, _NO_ROLLOUTS)
    if kl is not None:
        found["kl"] = share(float(kl.sum()), rows.rows.tokens, _NO_TOKENS)
    return found


def _column(rows: RecipeRows, name: str) -> Array | None:
    return rows.get(f"loss.{name}")


def _mean(rows: RecipeRows, count: Array) -> Figure:
    if rows.recipe.loss.level == "sequence":
        each = count / np.maximum(rows.rows.n, 1)
        return share(float(each.sum()), rows.rows.rollouts, _NO_ROLLOUTS)
    return share(float(count.sum()), rows.rows.tokens, _NO_TOKENS)


def _extreme(rows: RecipeRows, count: Array, *, largest: bool) -> Figure:
    """Smallest or largest share over rollouts; per token those without loss tokens have none."""
    each = count / np.maximum(rows.rows.n, 1)
    if rows.recipe.loss.level == "token":
        each = each[rows.rows.n > 0]
    if not each.size:
        return Figure.absent(_NO_TOKENS)
    return Figure(float(each.max() if largest else each.min()))
