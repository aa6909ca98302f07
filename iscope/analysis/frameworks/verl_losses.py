"""verl's metrics of its policy losses (verl 0.9.1, trainer/ppo/core_algos.py): actor/*, over the remaining mask."""

from __future__ import annotations

from iscope.analysis.denominators import penalty_mean
from iscope.analysis.frameworks.verl_shared import EPSILON, Metrics
from iscope.analysis.recipe_rows import RecipeRows

# By loss type, the flags that pg_clipfrac and pg_clipfrac_lower count; an empty tuple is a 0 that verl logs.
_CLIPPED = {
    "clipped_surrogate": (("clipped_low", "clipped_high"), ("dual_clipped",)),
    "clipped_weight": (("clipped_low", "clipped_high"), ("dual_clipped",)),
    "dppo": (("diverged",), ("truncated",)),
    "sapo": ((), ()),
    "geo_mean": (("cut_positive",), ("cut_negative",)),
    "cispo": (("limited",), ()),
}


def loss_metrics(rows: RecipeRows) -> Metrics:
    """actor/ppo_kl, and pg_clipfrac and pg_clipfrac_lower of the losses that have them; all take current logprobs.

    With use_kl_loss actor/kl_loss, before its factor and summed up as loss_agg_mode says, and actor/kl_coef.
    """
    if "loss.kl" in rows and rows.recipe.options["use_kl_loss"]:
        yield "actor/kl_loss", penalty_mean(rows, rows["loss.kl"])
        yield "actor/kl_coef", float(rows.recipe.options["kl_loss_coef"])
    if "loss.lag" not in rows:
        return
    dropped = int(rows["logged.dropped"].sum()) if "logged.dropped" in rows else 0
    tokens = rows.rows.tokens - dropped + EPSILON
    yield "actor/ppo_kl", float(rows["loss.lag"].sum()) / tokens
    flags = _CLIPPED.get(rows.recipe.loss.type, ())
    for name, counted in zip(("pg_clipfrac", "pg_clipfrac_lower"), flags, strict=False):
        flagged = (int(rows[f"loss.{flag}"].sum()) for flag in counted if f"loss.{flag}" in rows)
        yield f"actor/{name}", sum(flagged) / tokens
