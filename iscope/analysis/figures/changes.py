"""What a recipe changed: masked, truncated, modified, kept; which filter and which bound; by sign of the advantage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iscope.analysis.intervals import fraction
from iscope.analysis.numbers import NO_TOKENS, Array, share
from iscope.analysis.rows import RecipeRows, Rows
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
        signs = rows.rows.once("signs", lambda: _Signs.of_rows(rows.rows))
        counts["by_sign"] = signs.counts(tokens, rollouts)
    return counts


_SIGNS = ("positive", "zero", "negative")


@dataclass(frozen=True)
class _Signs:
    """Rollouts by the sign of their advantage.

    Attributes:
        of: int8 [N], the place of each one's sign in ``_SIGNS``; one more where there is no advantage.
        tokens: scored tokens by sign.
        rollouts: rollouts by sign.
        none: why there is no share of them where there are none.
    """

    of: Array
    tokens: list[int]
    rollouts: list[int]
    none: str

    @classmethod
    def of_rows(cls, rows: Rows) -> _Signs:
        advantage = rows["advantage"]
        of = np.where(np.isnan(advantage), len(_SIGNS), 1 - np.sign(np.nan_to_num(advantage))).astype(np.int8)
        none = "no rollouts with this sign of the advantage" if rows.rollouts else NO_TOKENS
        return cls(of, _by_sign(of, rows.n), _by_sign(of, None), none)

    def counts(self, tokens: Array, rollouts: Array) -> dict[str, Node]:
        """Tokens [N] and rollouts, bool [N], of a kind, by sign."""
        none = [0] * len(_SIGNS)
        counted = (_by_sign(self.of, column) if column.any() else none for column in (tokens, rollouts))
        found = (*counted, self.tokens, self.rollouts)
        by_sign = zip(_SIGNS, *found, strict=True)
        return {
            sign: {
                "tokens": of_tokens,
                "rollouts": of_rollouts,
                "token_fraction": share(of_tokens, all_tokens, self.none),
                "rollout_fraction": share(of_rollouts, all_rollouts, self.none),
            }
            for sign, of_tokens, of_rollouts, all_tokens, all_rollouts in by_sign
        }


def _by_sign(of: Array, counts: Array | None) -> list[int]:
    """Sums of whole numbers [N] by sign, exact in float64."""
    return [int(total) for total in np.bincount(of, counts, len(_SIGNS) + 1)[: len(_SIGNS)]]


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
