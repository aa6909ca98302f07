"""What a recipe changed: masked, truncated, modified, kept; which filter and which bound; by sign of the advantage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iscope.analysis.intervals import Clusters, fraction_of
from iscope.analysis.latest import latest
from iscope.analysis.numbers import NO_TOKENS, Array, read_only, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures, Node
from iscope.replay.compiled import compiled


def figures(rows: RecipeRows) -> Figures:
    """Counts and fractions, in tokens and in rollouts.

    A rollout is masked when no token of it is kept, truncated when any weight of it was cut or raised, modified when
    any token of it was masked or truncated (TRL's frac_modified_importance_sampling_ratio counts the same).
    """
    found = changed(rows)
    signs, every = found.signs, found.sums.scored
    masked, truncated, modified = found.counts
    of_masked, of_modified = (fraction_of(part, every) for part in (found.sums.masked, found.sums.modified))
    low, high = found.moved.tolist()
    return {
        "masked": {
            **_counts(rows, masked, of_masked, signs),
            "by_filter": [_filter(rows, index) for index in range(len(rows.recipe.filters))],
        },
        "truncated": {
            **_counts(rows, truncated, share(int(truncated[0].sum()), rows.rows.tokens), signs),
            "low": low,
            "high": high,
        },
        "modified": _counts(rows, modified, of_modified, signs),
        "kept": {
            "tokens": rows.rows.tokens - int(masked[0].sum()),
            "rollouts": rows.rows.rollouts - int(masked[1].sum()),
        },
    }


@dataclass(frozen=True)
class TokenSums:
    """Tokens of the blocks of what is resampled, float64 [B]: scored, masked, and modified by a recipe."""

    scored: Array
    masked: Array
    modified: Array

    @property
    def kept(self) -> Array:
        """Those that are not masked."""
        return self.scored - self.masked


@dataclass(frozen=True)
class Changed:
    """What a recipe changed.

    Attributes:
        counts: int64 [3, 2, S], masked, truncated and modified, in tokens and in rollouts, by sign of the advantage.
        moved: tokens whose weight was raised, and those whose weight was cut, int64 [2].
        sums: sums over blocks.
        signs: the signs.
    """

    counts: Array
    moved: Array
    sums: TokenSums
    signs: _Signs


def changed(rows: RecipeRows) -> Changed:
    """Count what a recipe changed, in one pass for all figures."""
    return latest(rows.rows, "changed", rows.index, lambda: _changed(rows))


def _changed(rows: RecipeRows) -> Changed:
    signs = rows.rows.once("signs", lambda: _Signs.of_rows(rows.rows))
    scored = rows.rows.once("scored tokens by block", lambda: rows.rows.clusters.sums(rows.rows.n))
    tokens = rows.kept, rows.truncated_low, rows.truncated_high, rows.modified
    counts, moved, sums = _count(signs.of, rows.rows.clusters, rows.rows.n, tokens)
    return Changed(counts, moved, TokenSums(scored, *sums), signs)


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
        every: scored tokens and rollouts by sign, int64 [2, S].
        none: why there is no share of them where there are none.
    """

    of: Array
    every: Array
    none: str

    @classmethod
    def of_rows(cls, rows: Rows) -> _Signs:
        of = np.where(np.isnan(rows.advantage), len(_SIGNS), 1 - np.sign(np.nan_to_num(rows.advantage))).astype(np.int8)
        none = "no rollouts with this sign of the advantage" if rows.rollouts else NO_TOKENS
        nothing = np.zeros_like(rows.n)
        return cls(of, _count(of, rows.clusters, rows.n, [nothing] * 4)[0][0], none)

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


def _count(of: Array, clusters: Clusters, n: Array, tokens: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Counts; tokens raised and cut; and sums over blocks of masked and modified ones, see ``Changed``.

    Args:
        of: the sign of each rollout [N].
        clusters: the blocks.
        n: scored tokens [N].
        tokens: those kept, raised, cut and modified [N].
    """
    found, moved = np.zeros((3, 2, len(_SIGNS) + 1), np.int64), np.zeros(2, np.int64)
    sums = np.zeros((clusters.count, 2))
    count_changes(found, moved, sums, of, clusters.block, *(read_only(column, np.int32) for column in (n, *tokens)))
    return found, moved, np.ascontiguousarray(sums.T)


@compiled()
def count_changes(
    found: Any, moved: Any, sums: Any, of: Any, block: Any, n: Any, kept: Any, raised: Any, cut: Any, modified: Any
) -> None:
    """Count masked, truncated and modified tokens, and rollouts: wholly masked, or with any of the others.

    Args:
        found: what to add to, int64 [3, 2, S], tokens and rollouts of each kind by sign.
        moved: the same, int64 [2], tokens that were raised and cut.
        sums: the same, float64 [B, 2], masked and modified tokens by block.
        of: the sign of each rollout, int8 [N], from 0.
        block: its block, int64 [N], from 0.
        n: its scored tokens, int32 [N], read only, as all that follow.
        kept: those that are kept, int32 [N].
        raised: those whose weight was raised, int32 [N].
        cut: those whose weight was cut, int32 [N].
        modified: those that were truncated or masked, int32 [N].
    """
    for row in range(len(of)):
        masked, truncated = n[row] - kept[row], raised[row] + cut[row]
        if (masked | truncated | modified[row]) == 0:
            continue
        sign, at = np.uint64(of[row]), np.uint64(block[row])
        found[0, 0, sign] += masked
        found[0, 1, sign] += kept[row] == 0
        found[1, 0, sign] += truncated
        found[1, 1, sign] += truncated > 0
        found[2, 0, sign] += modified[row]
        found[2, 1, sign] += modified[row] > 0
        moved[0] += raised[row]
        moved[1] += cut[row]
        sums[at, 0] += masked
        sums[at, 1] += modified[row]


def _filter(rows: RecipeRows, index: int) -> dict[str, Node]:
    rule = rows.recipe.filters[index]
    counts = rows.counts_rejected(index)
    return {"name": rule.name, **dict(zip(("low", "high", "rollouts_low", "rollouts_high"), counts, strict=True))}
