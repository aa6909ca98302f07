"""Which rows of which sides belong to the same rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from iscope.dump.ragged import Int64s
from iscope.dump.schema import KEY, SIDES
from iscope.dump.table import Table
from iscope.errors import DataError

_MEANING = {
    "null_key": "has a null in {on!r}",
    "duplicate_key": "shares its {on!r} {key!r} with another row of its side",
    "unmatched_inference": "has no row with {on!r} {key!r} on the trainer side",
    "unmatched_trainer": "has no row with {on!r} {key!r} on the inference side",
}


@dataclass(frozen=True)
class Match:
    """The rows that belong together, rows numbered through all files of a side.

    Attributes:
        partners: for each side but inference, int64 [rows of the inference side]: its row, or -1 where left out.
        rollouts: distinct keys over all sides, rows without a key counted one by one.
        excluded: keys left out, by reason.
    """

    partners: dict[str, Int64s]
    rollouts: int
    excluded: dict[str, int]


def match(tables: Mapping[str, Table], on: str, batch_tokens: int, *, strict: bool) -> Match:
    """Match the sides on their key column, read alone.

    Raises:
        DataError: when ``strict`` and a row has no key, shares it, or has no partner.
    """
    rows = pl.concat([keys_of(side, table, batch_tokens) for side, table in tables.items()])
    keyless = rows.filter(pl.col("key").is_null()).with_columns(reason=pl.lit("null_key"))
    matched = _by_key(rows.drop_nulls("key"), list(tables))
    bad = matched.drop_nulls("reason")
    if strict and (keyless.height or bad.height):
        _refuse(tables, on, keyless, rows.join(bad.select("key", "reason"), on="key"))
    excluded = dict(bad.group_by("reason").len().sort("reason").iter_rows())
    if keyless.height:
        excluded["null_key"] = keyless.height
    good = matched.filter(pl.col("reason").is_null())
    partners = {}
    for side in tables:
        if side != "inference":
            partners[side] = np.full(tables["inference"].rows, -1, dtype=np.int64)
            partners[side][good["row_inference"].to_numpy()] = good[f"row_{side}"].to_numpy()
    return Match(partners, matched.height + keyless.height, excluded)


def keys_of(side: str, table: Table, batch_tokens: int) -> pl.DataFrame:
    """Return ``key``, ``side`` and ``row`` of every row of a side, null where it has no key."""
    keys = [pl.Series(block.arrays[KEY], dtype=pl.String) for block in table.blocks(batch_tokens, only=[KEY])]
    column = pl.concat(keys) if keys else pl.Series([], dtype=pl.String)
    return pl.DataFrame({"key": column}).select("key", side=pl.lit(side), row=pl.int_range(pl.len(), dtype=pl.Int64))


def _by_key(rows: pl.DataFrame, sides: list[str]) -> pl.DataFrame:
    """Return one row per key: its row on each side, and why it is left out, null where it is not."""
    here = {side: pl.col("side") == side for side in sides}
    keys = rows.group_by("key").agg(
        *(flag.sum().alias(f"n_{side}") for side, flag in here.items()),
        *(pl.col("row").filter(flag).first().alias(f"row_{side}") for side, flag in here.items()),
    )
    count = {side: pl.col(f"n_{side}") for side in sides}
    inference, trainer = count["inference"] > 0, count["trainer"] > 0
    extra = sides[2:]
    reasons = {
        "duplicate_key": pl.max_horizontal(*count.values()) > 1,
        "unmatched_inference": inference & ~trainer,
        "unmatched_trainer": trainer & ~inference,
        **{f"unmatched_{side}": ~trainer & (count[side] > 0) for side in extra},
        **{f"missing_{side}": count[side] == 0 for side in extra},
    }
    first = pl.coalesce(*(pl.when(applies).then(pl.lit(reason)) for reason, applies in reasons.items()))
    return keys.with_columns(reason=first)


def _refuse(tables: Mapping[str, Table], on: str, keyless: pl.DataFrame, bad: pl.DataFrame) -> None:
    order = {side: index for index, side in enumerate(SIDES)}
    columns = ["key", "side", "row", "reason"]
    rows = pl.concat([keyless.select(columns), bad.select(columns)])
    first = rows.sort(pl.col("side").replace_strict(order), "row").row(0, named=True)
    file, row = tables[first["side"]].locate(first["row"])
    other = first["reason"].partition("_")[2]
    meaning = _MEANING.get(first["reason"], f"has no counterpart for {{on!r}} {{key!r}} on the {other} side")
    if first["reason"] == f"unmatched_{other}" and other not in ("trainer", "inference"):
        meaning = "has no row with {on!r} {key!r} on the trainer and inference sides"
    told = meaning.format(on=on, key=first["key"])
    raise DataError(f"{file}: row {row} {told}; without --strict such rows are left out.")
