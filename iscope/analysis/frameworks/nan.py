"""Metrics of a batch with NaN logprobs, for frameworks whose own turn NaN or count such a token one way or another."""

from __future__ import annotations

from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures


def unless_nan(rows: RecipeRows, found: Figures, title: str) -> Figures:
    """Return the metrics, or each as absent where loss tokens have a NaN logprob.

    Args:
        rows: what the recipe did to the rollouts.
        found: the metrics.
        title: the framework.
    """
    nan = int(rows.rows["nan_tokens"].sum())
    if not nan:
        return found
    why = f"{nan} loss tokens have a NaN logprob, and what {title} makes of them is not replayed"
    return dict.fromkeys(found, Figure.absent(why))
