"""Mismatch KL of what a recipe keeps and of what it rejects."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.analysis.figures.changes import changed
from iscope.analysis.intervals import ratio_of
from iscope.analysis.numbers import NO_TOKENS, Array, figure, read_only, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.replay.compiled import compiled


def figures(rows: RecipeRows) -> Figures:
    """K3 of the recipe's policy pair, nats per token, over rejected and over kept tokens.

    ``token`` pools the tokens; ``rollout_mean`` is prime-rl's masked_mismatch_kl and unmasked_mismatch_kl: the mean
    over rollouts of each rollout's mean, 0 for a rollout without such tokens.
    """
    names, rollouts = ("masked_mismatch_kl", "unmasked_mismatch_kl"), rows.rows.rollouts
    if not rollouts:
        return {name: {"token": Figure.absent(NO_TOKENS), "rollout_mean": Figure.absent(NO_TOKENS)} for name in names}
    of_kept, of_masked, *of_means = _split(rows)
    found = changed(rows)
    masked = share(of_masked, int(found.counts[0, 0].sum()), "nothing was masked")
    unmasked = ratio_of(of_kept, found.sums.kept, "everything was masked")
    return {
        name: {"token": token, "rollout_mean": figure(total / rollouts)}
        for name, token, total in zip(names, (masked, unmasked), of_means, strict=True)
    }


def _split(rows: RecipeRows) -> tuple[Array, float, float, float]:
    """Sums over blocks [B] of k3 of kept tokens, its sum over masked ones, and those of rollouts' means of either."""
    together = not rows.per_token
    whole = rows.rows.pair("k3_sum", rows.recipe.weight.pair)
    k3 = (whole, whole) if together else (rows["k3_kept"], rows["k3_masked"])
    sums = np.zeros(rows.rows.clusters.count)
    n, kept = (read_only(tokens, np.int32) for tokens in (rows.rows.n, rows.kept))
    of_kept, of_masked = (read_only(one, np.float64) for one in k3)
    return sums, *split_k3(sums, rows.rows.clusters.block, n, kept, of_kept, of_masked, together)


@compiled()
def split_k3(
    sums: Any, block: Any, n: Any, kept: Any, of_kept: Any, of_masked: Any, together: bool
) -> tuple[float, float, float]:
    """Add k3 of kept tokens up by block; return its sum over masked ones, and those of means over masked and kept ones.

    Args:
        sums: what to add to, float64 [B].
        block: the block of each rollout, int64 [N], no number of which is below 0.
        n: its scored tokens, int32 [N], read only, as all that follow.
        kept: those that are kept, int32 [N].
        of_kept: sums of k3 over those, nats, float64 [N].
        of_masked: over the others, float64 [N].
        together: whether a rollout is kept or masked as a whole, and both are sums over all its tokens.
    """
    total = masked_means = kept_means = 0.0
    for row in range(len(block)):
        masked = n[row] - kept[row]
        if masked > 0:
            total += of_masked[row]
            masked_means += of_masked[row] / masked
        if (kept[row] > 0) | (not together):
            sums[np.uint64(block[row])] += of_kept[row]
            kept_means += of_kept[row] / max(kept[row], 1)
    return total, masked_means, kept_means
