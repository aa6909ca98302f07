"""OpenRLHF's metrics (0.11.2, models/loss.py and trainer/ray/ppo_actor.py), whole batch, over its loss tokens.

OpenRLHF has no rule for a logprob that is not a number: where a loss token has one, its own metrics are NaN.
"""

from __future__ import annotations

from iscope.analysis.numbers import share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, Pair, Reduction

_NO_TOKENS = "no loss tokens"
_NO_ROLLOUTS = "no rollouts"


def metrics(rows: RecipeRows) -> Figures:
    """ppo_kl and ppo_clip_ratio, which take current logprobs; vllm_kl and is_filter_ratio of a correction."""
    found: Figures = {}
    tokens = rows.rows.tokens
    if _corrects(rows):
        found["vllm_kl"] = share(-rows.rows.pair_total("log_ratio_sum"), tokens, _NO_TOKENS)
        found["is_filter_ratio"] = _filtered(rows)
    if f"{Pair.CURRENT_TRAINER}:log_ratio_sum" in rows.rows:
        lag = rows.rows.pair_total("log_ratio_sum", Pair.CURRENT_TRAINER)
        found["ppo_kl"] = share(-lag, tokens, _NO_TOKENS)
    if "loss.clipped_low" in rows:
        clipped = rows["loss.clipped_low"].sum() + rows["loss.clipped_high"].sum()
        found["ppo_clip_ratio"] = share(int(clipped), tokens, _NO_TOKENS)
    nan = int(rows.rows["nan_tokens"].sum())
    if nan:
        absent = Figure.absent(f"OpenRLHF's own is NaN: {nan} loss tokens have a NaN logprob")
        return dict.fromkeys(found, absent)
    return found


def _corrects(rows: RecipeRows) -> bool:
    """Whether the recipe weights by the ratio of each token: gspo takes the ratio into its loss and logs nothing."""
    return rows.recipe.weight.level == Level.TOKEN


def _filtered(rows: RecipeRows) -> Figure:
    """Share of loss tokens out of bounds, or of rollouts: one without loss tokens counts, its mean is NaN."""
    rules = rows.recipe.filters
    if not rules:
        return share(int((rows.truncated_low + rows.truncated_high).sum()), rows.rows.tokens, _NO_TOKENS)
    low, high = rows.rejected(0)
    if rules[0].reduction is Reduction.TOKEN:
        return share(int((low + high).sum()), rows.rows.tokens, _NO_TOKENS)
    out = (low + high > 0) | (rows.rows.n == 0)
    return share(int(out.sum()), rows.rows.rollouts, _NO_ROLLOUTS)
