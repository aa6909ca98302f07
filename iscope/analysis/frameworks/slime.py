"""slime's metrics of its corrections and losses (commit 624b824a), as it logs them under train/.

Each is a mean over rollouts of means over their loss tokens, empty rollouts counting as 0; with
calculate_per_token_loss, a mean over the batch's loss tokens, an empty rollout counting as one. A metric of the loss
leaves out what MIS rejects, but its denominators do not. The batch is taken as one micro-batch on one rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iscope.analysis.frameworks.nan import unless_nan
from iscope.analysis.frameworks.slime_means import Means
from iscope.analysis.frameworks.slime_mis import mis_metrics
from iscope.analysis.numbers import Array
from iscope.analysis.recipe_rows import RecipeRows
from iscope.ledger.loss_columns import engine_pair
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, Pair

_PAIR = Pair.TRAINER_INFERENCE


def metrics(rows: RecipeRows) -> Figures:
    """Every metric slime logs for this correction and loss, but for the values of the loss itself."""
    if not rows.replayed:
        return {}
    means = Means(rows)
    mode = rows.recipe.imitated.partition("/")[2]
    found: Figures = dict(_loss(rows, means))
    if mode in ("tis", "icepop"):
        found |= dict(_token_weights(rows, means))
    if mode == "mis":
        found |= dict(mis_metrics(rows, means))
    return unless_nan(rows, found, rows.recipe.framework)


def _token_weights(rows: RecipeRows, means: Means) -> Iterator[tuple[str, Figure]]:
    changed = rows.truncated_low + rows.truncated_high
    for index, rule in enumerate(rows.recipe.filters):
        if rule.name == "icepop":
            low, high = rows.rejected(index)
            changed = changed + low + high
    yield "tis", means.of(rows.rows.pair("weight_sum", _PAIR))
    yield "tis_abs", means.of(rows.rows.pair("abs_excess_sum", _PAIR))
    yield "tis_clipfrac", means.of(changed)


def _loss(rows: RecipeRows, means: Means) -> Iterator[tuple[str, Figure]]:
    """Those of the loss take current logprobs and advantages."""
    if "loss.lag" not in rows:
        return
    masked = any(rule.masks_penalty for rule in rows.recipe.filters)
    yield from _lag(rows, means, _column(rows, "left") if masked else rows.rows.n)
    names = ("limited",) if rows.recipe.loss.type == "cispo" else ("clipped_low", "clipped_high")
    yield "pg_clipfrac", means.of(sum((_column(rows, name) for name in names), start=np.zeros(rows.rows.rollouts)))
    difference = _column(rows, "difference") if masked else rows.rows.pair("abs_sum", engine_pair(rows.recipe.loss))
    yield "train_rollout_logprob_abs_diff", means.of(difference)
    for index, rule in enumerate(rows.recipe.filters):
        if rule.name == "opsm":
            drifted = rows.rejected(index)[1] > 0
            yield "opsm_clipfrac", means.of_rollouts(drifted * rows.rows["tokens"] / np.maximum(rows.rows.n, 1))
    if rows.recipe.options["use_kl_loss"] and "loss.kl" in rows:
        yield "kl_loss", means.of(_column(rows, "kl"))


def _lag(rows: RecipeRows, means: Means, left: Array) -> Iterator[tuple[str, Figure]]:
    """The ratio r of a corrected loss, and -log r over the tokens left; of gspo both are the rollout's."""
    loss = rows.recipe.loss
    whole = rows.rows.log_ratio(Level.GEOMETRIC, loss.pair)
    if not rows.recipe.imitated.endswith("/none"):
        ratio = np.exp(whole) * rows.rows.n if loss.level == "sequence" else rows.rows.pair("weight_sum", loss.pair)
        yield "ois", means.of(ratio)
    yield "ppo_kl", means.of(-whole * left if loss.level == "sequence" else _column(rows, "lag"))


def _column(rows: RecipeRows, name: str) -> Array:
    return rows[f"loss.{name}"]
