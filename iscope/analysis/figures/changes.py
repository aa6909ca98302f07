"""What a recipe changed: masked, truncated, modified, kept; which filter and which bound; by sign of the advantage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iscope.analysis.intervals import fraction
from iscope.analysis.numbers import NO_TOKENS, Array, read_only, share
from iscope.analysis.rows import RecipeRows, Rows
from iscope.model import Figure, Figures, Node
from iscope.replay.compiled import compiled


def figures(rows: RecipeRows) -> Figures:
    """Counts and fractions, in tokens and in rollouts.

    A rollout is masked when no token of it is kept, truncated when any weight of it was cut or raised, modified when
    any token of it was masked or truncated (TRL's frac_modified_importance_sampling_ratio counts the same).
    """
    low, high = rows.truncated_low, rows.truncated_high
    signs = rows.rows.once("signs", lambda: _Signs.of_rows(rows.rows))
    masked, truncated, modified = signs.counts(rows.kept, low + high, rows.modified)
    of_masked, of_modified = _fractions(rows)
    return {
        "masked": {
            **_counts(rows, masked, of_masked, signs),
            "by_filter": [_filter(rows, index) for index in range(len(rows.recipe.filters))],
        },
        "truncated": {
            **_counts(rows, truncated, share(int(truncated[0].sum()), rows.rows.tokens), signs),
            "low": int(low.sum()),
            "high": int(high.sum()),
        },
        "modified": _counts(rows, modified, of_modified, signs),
        "kept": {
            "tokens": rows.rows.tokens - int(masked[0].sum()),
            "rollouts": rows.rows.rollouts - int(masked[1].sum()),
        },
    }


def _fractions(rows: RecipeRows) -> list[Figure]:
    """Shares of masked and of modified tokens, which have intervals that cover (``intervals.LISTED``)."""
    clusters, n, columns = rows.rows.clusters, rows.rows.n, (rows.masked, rows.modified)
    clusters.sums_of([n, *columns])  # in one pass; then they are at hand
    return [fraction(clusters, column, n) for column in columns]


def _counts(rows: RecipeRows, counts: Array, of_tokens: Figure, signs: _Signs) -> dict[str, Node]:
    """Counts of all and by sign, given by tokens and rollouts [2, S], with the share of tokens."""
    tokens, rollouts = counts.sum(axis=1).tolist()
    found: dict[str, Node] = {
        "tokens": tokens,
        "rollouts": rollouts,
        "token_fraction": of_tokens,
        "rollout_fraction": share(rollouts, rows.rows.rollouts),
    }
    return found | ({"by_sign": signs.shares(counts)} if "advantage" in rows.rows else {})


_SIGNS = ("positive", "zero", "negative")


@dataclass(frozen=True)
class _Signs:
    """Rollouts by the sign of their advantage.

    Attributes:
        of: int8 [N], the place of each one's sign in ``_SIGNS``; one more where there is no advantage.
        n: scored tokens of each [N].
        every: scored tokens and rollouts by sign, int64 [2, S].
        none: why there is no share of them where there are none.
    """

    of: Array
    n: Array
    every: Array
    none: str

    @classmethod
    def of_rows(cls, rows: Rows) -> _Signs:
        advantage = rows["advantage"] if "advantage" in rows else np.full(rows.rollouts, np.nan)
        of = np.where(np.isnan(advantage), len(_SIGNS), 1 - np.sign(np.nan_to_num(advantage))).astype(np.int8)
        none = "no rollouts with this sign of the advantage" if rows.rollouts else NO_TOKENS
        every = _count(of, rows.n, np.zeros_like(rows.n), rows.n, rows.n)[0]
        return cls(of, rows.n, every, none)

    def counts(self, kept: Array, truncated: Array, modified: Array) -> Array:
        """Count what is masked, truncated and modified, given tokens [N]: tokens and rollouts by sign [3, 2, S]."""
        return _count(self.of, self.n, kept, truncated, modified)

    def shares(self, counts: Array) -> dict[str, Node]:
        """Counts of a kind, tokens and rollouts by sign [2, S], with their shares."""
        by_sign = zip(_SIGNS, counts.T.tolist(), self.every.T.tolist(), strict=False)
        return {
            sign: {
                "tokens": of_tokens,
                "rollouts": of_rollouts,
                "token_fraction": share(of_tokens, all_tokens, self.none),
                "rollout_fraction": share(of_rollouts, all_rollouts, self.none),
            }
            for sign, (of_tokens, of_rollouts), (all_tokens, all_rollouts) in by_sign
        }


def _count(of: Array, *columns: Array) -> Array:
    found = np.zeros((3, 2, len(_SIGNS) + 1), dtype=np.int64)
    count_changes(found, of, *(read_only(column, np.int64) for column in columns))
    return found


@compiled()
def count_changes(found: Any, of: Any, n: Any, kept: Any, truncated: Any, modified: Any) -> None:
    """Count masked, truncated and modified tokens, and rollouts: wholly masked, or with any of the others.

    Sign after sign: so the loop takes several rows at once.

    Args:
        found: where to write, int64 [3, 2, S], tokens and rollouts of each kind by sign.
        of: the sign of each rollout, int8 [N], from 0.
        n: its scored tokens, int64 [N], read only, as all that follow.
        kept: those that are kept, int64 [N].
        truncated: those whose weight was cut or raised, int64 [N].
        modified: those that were truncated or masked, int64 [N].
    """
    for sign in range(found.shape[2]):
        masked = rejected = cut = of_cut = changed = of_changed = 0
        for row in range(len(of)):
            has = of[row] == sign
            masked += n[row] - kept[row] if has else 0
            rejected += has & (kept[row] == 0)
            cut += truncated[row] if has else 0
            of_cut += has & (truncated[row] > 0)
            changed += modified[row] if has else 0
            of_changed += has & (modified[row] > 0)
        found[0, 0, sign], found[0, 1, sign] = masked, rejected
        found[1, 0, sign], found[1, 1, sign] = cut, of_cut
        found[2, 0, sign], found[2, 1, sign] = changed, of_changed


def _filter(rows: RecipeRows, index: int) -> dict[str, Node]:
    rule = rows.recipe.filters[index]
    low, high = rows.rejected(index)
    return {
        "name": rule.name,
        "low": int(low.sum()),
        "high": int(high.sum()),
        "rollouts_low": int(np.count_nonzero(low)),
        "rollouts_high": int(np.count_nonzero(high)),
    }
