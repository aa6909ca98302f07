"""Breakdowns: the headline figures of a dump and of its recipes, per value of a rollout column or a computed key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from iscope.analysis.figures.by_p import by_p
from iscope.analysis.figures.differences import largest
from iscope.analysis.figures.lag import lag, why_no_lag
from iscope.analysis.figures.variance_ratio import ROUNDING, ROUNDING_K3, variance_columns
from iscope.analysis.headlines import Headlines
from iscope.analysis.numbers import NO_ROLLOUT_ADVANTAGE, Array, figure, share
from iscope.analysis.parts import Parts
from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows
from iscope.errors import DataError, did_you_mean
from iscope.model import Figure, Figures, Node

# Keys that are computed, and the columns of the dump that they are computed from.
COMPUTED: dict[str, tuple[str, ...]] = {
    "lag": ("trainer_version", "policy_version"),
    "length": (),
    "p": (),
    "group": ("group_id",),
}

# A mean takes what a float32 holds, as trainers do.
_LARGEST = np.finfo(np.float32).max


def columns_of(by: Sequence[str]) -> tuple[str, ...]:
    """Columns that a dump must have to be broken down by these keys."""
    return tuple(dict.fromkeys(column for key in by for column in COMPUTED.get(key, (key,))))


def several(rows: Rows) -> list[str]:
    """Keys that a report is broken down by unasked: step and lag, where rollouts differ in them."""
    possible = {"step": "step" in rows, "lag": why_no_lag(rows) is None}
    return [key for key, there in possible.items() if there and _key(rows, key).n_unique() > 1]


class Breakdown:
    """Rows of figures by the values of a key; all wait for their intervals."""

    def __init__(self, rows: Rows, by: str) -> None:
        """Cut the rollouts into parts.

        Args:
            rows: the rollouts.
            by: ``lag`` (trainer_version - policy_version; where it differs per token its mean, rounded), ``length``
                (scored tokens, in powers of two), ``group`` (group_id), ``p`` (tokens by q; rollouts are no part of it,
                nor recipes), or a rollout column.

        Raises:
            DataError: when there is no such key.
        """
        self._rows, self._by = rows, by
        self.parts = None if by == "p" else Parts.of(_key(rows, by), rows.cluster_codes)
        self._headlines = None if self.parts is None else Headlines(self.parts)

    def of_recipe(self, recipe: RecipeRows) -> list[Figures]:
        """Return what a replayed recipe did to the rollouts of each value; nothing where rows are of tokens."""
        return [] if self._headlines is None else self._headlines.of(recipe)

    def figures(self) -> list[Figures]:
        """Return one row of figures per value, in the order of the values, missing values last; without recipes."""
        if self.parts is None:
            return [{"value": _bucket(row), **row} for row in by_p(self._rows)]
        values = [_octave(value) if self._by == "length" else plain(value) for value in self.parts.values]
        rows = _figures(self._rows, self.parts)
        return [{"value": value, **row} for value, row in zip(values, rows, strict=True)]


def _key(rows: Rows, by: str) -> pl.Series:
    """The key [N] of each rollout."""
    if by == "length":
        return pl.Series(np.frexp(rows.n.astype(np.float64))[1])
    if by == "lag":
        why = why_no_lag(rows)
        if why:
            raise DataError(f"there is no lag to break the figures down by: {why}.")
        return lag_key(rows)
    column = "group_id" if by == "group" else by
    if column not in rows:
        raise DataError(f"the ledger has no column {column!r}.{did_you_mean(column, rows.frame.columns)}")
    return rows.frame[column]


def lag_key(rows: Rows) -> pl.Series:
    """The lag [N] of each rollout, rounded, null where it is not known; the rows must have versions."""
    return pl.Series(lag(rows), nan_to_null=True).round().cast(pl.Int64)


def _octave(power: int) -> str:
    low, high = 2 ** (power - 1), 2**power - 1
    return str(low) if low == high else f"{low}-{high}"


def _bucket(row: Figures) -> str:
    return f">={row['low']}" if row["high"] == 1.0 else f"{row['low']:g}-{row['high']:g}"


def plain(value: Node) -> Node:
    """Return a value of a column as reports write it."""
    return value if value is None or isinstance(value, int | str | bool) else str(value)


def _figures(rows: Rows, parts: Parts) -> list[Figures]:
    k3, weight, square = (rows.pair(name) for name in ("k3_sum", "weight_sum", "weight_sq"))
    k1, minus_log_p = -rows.pair("log_ratio_sum"), -rows["trainer_logprob_sum"]
    sums = parts.sums_of([k1, k3, weight, square, minus_log_p, rows.n, *variance_columns(rows)])
    of_k1, of_k3, of_weight, of_square, of_log_p, n, above, below = sums
    rollouts, tokens = parts.sizes, parts.sum(rows.n)
    figures: dict[str, list[Figure]] = {
        "k1": parts.ratios(of_k1, n),
        "k3": parts.ratios(of_k3, n),
        "abs_max": [figure(value) for value in parts.max(largest(rows)).tolist()],
        "ess_token_fraction": parts.size_shares(of_weight, of_square, n),
        "ess_sequence_fraction": _shares(parts.effective_size(rows.log_ratio("sequence")), rollouts),
        "variance_ratio": _variance_ratios(parts.ratios(above, below), parts.total(of_k3), tokens),
        "minus_log_p": parts.ratios(of_log_p, n),
        "length": _shares(tokens, rollouts),
        "reward": _means(rows, "reward", parts),
        "zero_advantage": _zero_advantages(rows, parts),
    }
    return [
        {"rollouts": int(rollouts[index]), "tokens": int(tokens[index])}
        | {name: of_parts[index] for name, of_parts in figures.items()}
        for index in range(len(parts.values))
    ]


def _variance_ratios(found: list[Figure], k3: Array, tokens: Array) -> list[Figure]:
    rounding = (k3 < ROUNDING_K3 * tokens).tolist()
    return [Figure.absent(ROUNDING) if none else one for none, one in zip(rounding, found, strict=True)]


def _shares(part: Array, whole: Array) -> list[Figure]:
    return [share(above, below) for above, below in zip(part.tolist(), whole.tolist(), strict=True)]


def _means(rows: Rows, column: str, parts: Parts) -> list[Figure]:
    if column not in rows:
        return [Figure.absent(f"the dump has no {column} column")] * len(parts.values)
    values = rows[column].astype(np.float64)
    known = abs(values) <= _LARGEST  # nor is a value that is missing or infinite
    total, count = parts.sum(np.where(known, values, 0.0)), parts.sum(known)
    return [share(above, below, "all missing") for above, below in zip(total.tolist(), count.tolist(), strict=True)]


def _zero_advantages(rows: Rows, parts: Parts) -> list[Figure]:
    if "advantage" not in rows:
        return [Figure.absent(NO_ROLLOUT_ADVANTAGE)] * len(parts.values)
    return _shares(parts.sum(rows["advantage"] == 0), parts.sizes)
