"""Breakdowns: the headline figures of a dump and of its recipes, per value of a rollout column or a computed key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from iscope.analysis.figures.by_p import by_p
from iscope.analysis.figures.differences import largest
from iscope.analysis.figures.lag import lag, why_no_lag
from iscope.analysis.figures.variance_ratio import ROUNDING, ROUNDING_K3, variance_columns
from iscope.analysis.headlines import Headlines
from iscope.analysis.intervals.figures import kish_share
from iscope.analysis.numbers import Array, figure, share
from iscope.analysis.parts import Asked, Parts
from iscope.analysis.rows import RecipeRows, Rows
from iscope.errors import DataError, did_you_mean
from iscope.model import Figure, Figures, Node

# Keys that are computed, and the columns of the dump that they are computed from.
COMPUTED: dict[str, tuple[str, ...]] = {
    "lag": ("trainer_version", "policy_version"),
    "length": (),
    "p": (),
    "group": ("group_id",),
}


def columns_of(by: Sequence[str]) -> tuple[str, ...]:
    """Columns that a dump must have to be broken down by these keys."""
    return tuple(dict.fromkeys(column for key in by for column in COMPUTED.get(key, (key,))))


def several(rows: Rows) -> list[str]:
    """Keys that a report is broken down by unasked: step and lag, where rollouts differ in them."""
    possible = {"step": "step" in rows, "lag": why_no_lag(rows) is None}
    return [key for key, there in possible.items() if there and _key(rows, key).n_unique() > 1]


class Breakdown:
    """Rows of figures by the values of a key, to which recipes are added one by one."""

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

    def add(self, recipe: RecipeRows) -> None:
        """Add what a recipe, which was replayed, did to the rollouts."""
        if self._headlines is not None:
            self._headlines.add(recipe)

    def bound(self) -> None:
        """Give the recipes added so far their intervals; others may be added meanwhile."""
        if self._headlines is not None:
            self._headlines.bound()

    def figures(self) -> list[Figures]:
        """Return one row of figures per value, in the order of the values; missing values last."""
        if self.parts is None or self._headlines is None:
            return [{"value": _bucket(row), **row} for row in by_p(self._rows)]
        parts, own, entries = self.parts, _asked(self._rows, self.parts), self._headlines.entries()
        figures = _figures(self._rows, parts, dict(zip(own, parts.bounded(list(own.values())), strict=True)))
        values = [_octave(value) if self._by == "length" else plain(value) for value in parts.values]
        return [
            {"value": value, **row, "recipes": [of_recipe[index] for of_recipe in entries]}
            for index, (value, row) in enumerate(zip(values, figures, strict=True))
        ]


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


def _asked(rows: Rows, parts: Parts) -> dict[str, Asked]:
    """The figures that get intervals."""
    tokens, (above, below) = parts.blocks(rows.n), (parts.blocks(column) for column in variance_columns(rows))
    k3, weight, square = (parts.blocks(rows.pair(name)) for name in ("k3_sum", "weight_sum", "weight_sq"))
    return {
        "k1": parts.ask_ratio(parts.blocks(-rows.pair("log_ratio_sum")), tokens),
        "k3": parts.ask_ratio(k3, tokens),
        "ess_token_fraction": Asked(_size_shares(parts, weight, square, tokens), kish_share, (weight, square, tokens)),
        "variance_ratio": _variance_ratio(parts, k3, tokens, parts.ask_ratio(above, below)),
        "minus_log_p": parts.ask_ratio(parts.blocks(-rows["trainer_logprob_sum"]), tokens),
    }


def _size_shares(parts: Parts, weight: Array, square: Array, tokens: Array) -> list[Figure]:
    whole, squares = parts.of_blocks(weight), parts.of_blocks(square)
    size = np.divide(whole, squares, out=np.zeros_like(whole), where=squares > 0) * whole
    return _shares(size, parts.of_blocks(tokens))


def _variance_ratio(parts: Parts, k3: Array, tokens: Array, found: Asked) -> Asked:
    rounding = parts.of_blocks(k3) < ROUNDING_K3 * parts.of_blocks(tokens)
    figures = zip(rounding.tolist(), found.found, strict=True)
    return replace(found, found=[Figure.absent(ROUNDING) if none else one for none, one in figures])


def _figures(rows: Rows, parts: Parts, bounded: dict[str, list[Figure]]) -> list[Figures]:
    rollouts, tokens = parts.sizes, parts.sum(rows.n)
    columns: dict[str, list[Figure]] = {
        "k1": bounded["k1"],
        "k3": bounded["k3"],
        "abs_max": [figure(value) for value in parts.max(largest(rows)).tolist()],
        "ess_token_fraction": bounded["ess_token_fraction"],
        "ess_sequence_fraction": _shares(parts.effective_size(rows.log_ratio("sequence")), rollouts),
        "variance_ratio": bounded["variance_ratio"],
        "minus_log_p": bounded["minus_log_p"],
        "length": _shares(tokens, rollouts),
        "reward": _means(rows, "reward", parts),
        "zero_advantage": _zero_advantages(rows, parts),
    }
    return [
        {"rollouts": int(rollouts[index]), "tokens": int(tokens[index])}
        | {name: figures[index] for name, figures in columns.items()}
        for index in range(len(parts.values))
    ]


def _shares(part: Array, whole: Array) -> list[Figure]:
    return [share(above, below) for above, below in zip(part.tolist(), whole.tolist(), strict=True)]


def _means(rows: Rows, column: str, parts: Parts) -> list[Figure]:
    if column not in rows:
        return [Figure.absent(f"the dump has no {column} column")] * len(parts.values)
    values = rows[column].astype(np.float64)
    known = np.isfinite(values)
    total, count = parts.sum(np.where(known, values, 0.0)), parts.sum(known)
    return [share(above, below, "all missing") for above, below in zip(total.tolist(), count.tolist(), strict=True)]


def _zero_advantages(rows: Rows, parts: Parts) -> list[Figure]:
    if "advantage" not in rows:
        return [Figure.absent("the dump has no advantage per rollout")] * len(parts.values)
    return _shares(parts.sum(rows["advantage"] == 0), parts.sizes)
