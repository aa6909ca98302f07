"""What a recipe changed: masked, truncated, modified, kept; which filter and which bound; by sign of the advantage."""

from __future__ import annotations

from typing import Any

from iscope.analysis.intervals import fraction
from iscope.analysis.numbers import NO_TOKENS, Array, share
from iscope.analysis.rows import RecipeRows
from iscope.model import Figures, Node


def figures(rows: RecipeRows) -> Figures:
    """Counts and fractions, in tokens and in rollouts.

    A rollout is masked when no token of it is kept, truncated when any weight of it was cut or raised, modified when
    any token of it was masked or truncated (TRL's frac_modified_importance_sampling_ratio counts the same).
    """
    truncated = rows.truncated_low + rows.truncated_high
    masked_rollouts = rows.kept == 0
    return {
        "masked": {
            **_counts(rows, rows.masked, masked_rollouts),
            "by_filter": [_filter(rows, index) for index in range(len(rows.recipe.filters))],
        },
        "truncated": {
            **_counts(rows, truncated, truncated > 0, bounded=False),
            "low": int(rows.truncated_low.sum()),
            "high": int(rows.truncated_high.sum()),
        },
        "modified": _counts(rows, rows.modified, rows.modified > 0),
        "kept": {"tokens": int(rows.kept.sum()), "rollouts": int((rows.kept > 0).sum())},
    }


def _counts(rows: RecipeRows, tokens: Array, rollouts: Array, *, bounded: bool = True) -> dict[str, Node]:
    """Counts of all and by sign; with an interval of the share of tokens where it covers (``intervals.LISTED``)."""
    of_tokens, of_rollouts = int(tokens.sum()), int(rollouts.sum())
    counts: dict[str, Node] = {
        "tokens": of_tokens,
        "rollouts": of_rollouts,
        "token_fraction": fraction(rows.rows.clusters, tokens, rows.rows.n)
        if bounded
        else share(of_tokens, rows.rows.tokens),
        "rollout_fraction": share(of_rollouts, rows.rows.rollouts),
    }
    if "advantage" in rows.rows:
        advantage = rows.rows["advantage"]
        signs = {"positive": advantage > 0, "zero": advantage == 0, "negative": advantage < 0}
        counts["by_sign"] = {sign: _of_sign(rows, tokens, rollouts, chosen) for sign, chosen in signs.items()}
    return counts


def _of_sign(rows: RecipeRows, tokens: Array, rollouts: Array, chosen: Array) -> dict[str, Any]:
    of_tokens, of_rollouts = int(tokens[chosen].sum()), int(rollouts[chosen].sum())
    none = "no rollouts with this sign of the advantage" if rows.rows.rollouts else NO_TOKENS
    return {
        "tokens": of_tokens,
        "rollouts": of_rollouts,
        "token_fraction": share(of_tokens, int(rows.rows.n[chosen].sum()), none),
        "rollout_fraction": share(of_rollouts, int(chosen.sum()), none),
    }


def _filter(rows: RecipeRows, index: int) -> dict[str, Node]:
    rule = rows.recipe.filters[index]
    low, high = rows.rejected(index)
    return {
        "name": rule.name,
        "low": int(low.sum()),
        "high": int(high.sum()),
        "rollouts_low": int((low > 0).sum()),
        "rollouts_high": int((high > 0).sum()),
    }
