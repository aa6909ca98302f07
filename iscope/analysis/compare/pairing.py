"""Which rollouts of two dumps belong together: the same tokens, else the same prompts, else none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from iscope.analysis.numbers import Array
from iscope.analysis.rows import Rows

# The share of the smaller dump that must be found in the other for the two to count as paired.
_ENOUGH = 0.5


@dataclass(frozen=True)
class Paired:
    """How the rollouts of two dumps are resampled together.

    Attributes:
        kind: ``tokens``, ``prompts`` or ``none``.
        why: in words.
        rollouts: rollouts of the first dump that have a partner.
        here: int64 [N], the block of each rollout of the first dump.
        there: int64 [M], those of the second; blocks of either number from 0 to ``blocks``.
        blocks: how many there are.
    """

    kind: str
    why: str
    rollouts: int
    here: Array
    there: Array
    blocks: int


def pair(here: Rows, there: Rows, ids: tuple[pl.DataFrame, pl.DataFrame]) -> Paired:
    """Pair two dumps.

    Args:
        here: the rollouts of the first [N].
        there: those of the second [M].
        ids: hashes of tokens and prompts of either, by ``rollout_id`` (``iscope.dump.identity``).
    """
    tables = [_table(rows, frame) for rows, frame in zip((here, there), ids, strict=True)]
    fewer = min(here.rollouts, there.rollouts)
    shared = len(set(tables[0]["rollout_id"]) & set(tables[1]["rollout_id"]))
    evidence, tokens = _same_tokens(*tables)
    if tokens.height and tokens.height >= _ENOUGH * fewer:
        why = f"{tokens.height:,} rollouts of both have the same rollout_id and {evidence}; they are compared in pairs"
        return _by_tokens(here, there, tokens, why)
    known = all(bool(table["tokens"].is_not_null().any()) for table in tables)
    others = "but not their tokens" if known else "but no token ids, and their logprobs differ"
    differ = f"{shared:,} rollouts share a rollout_id {others}; " if shared else ""
    prompts = _common_prompts(*tables)
    if prompts >= max(1.0, _ENOUGH * fewer):
        why = f"{differ}{prompts:,} rollouts have a prompt that both dumps have; they are compared prompt by prompt"
        mine, theirs = (table["prompt"].cast(pl.String) for table in tables)
        return _blocks("prompts", why, prompts, (here, mine), (there, theirs))
    why = f"{differ}no prompts are known to be in both; the dumps are compared as a whole, unpaired"
    return _blocks("none", why, 0, (here, _nameless(here)), (there, _nameless(there)))


def _table(rows: Rows, ids: pl.DataFrame) -> pl.DataFrame:
    own = (
        rows.frame.select(["rollout_id", "tokens", "inference_logprob_sum"])
        .rename({"tokens": "length", "inference_logprob_sum": "sum"})
        .with_columns(pl.col("rollout_id").cast(pl.String))
        .with_row_index("row")
    )
    return own.join(ids, on="rollout_id", how="left", maintain_order="left")


def _same_tokens(here: pl.DataFrame, there: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    """Rows of the rollouts of both that hold the same tokens, and what says so."""
    once = [
        table.filter(pl.col("rollout_id").is_unique() & pl.col("rollout_id").is_not_null()) for table in (here, there)
    ]
    joined = once[0].join(once[1], on="rollout_id", suffix="_there")
    known = joined.filter(pl.col("tokens").is_not_null() & pl.col("tokens_there").is_not_null())
    if known.height:
        return "the same token ids", known.filter(pl.col("tokens") == pl.col("tokens_there"))
    alike = (pl.col("length") == pl.col("length_there")) & (pl.col("sum") == pl.col("sum_there"))
    return "the same inference logprobs to the bit", joined.filter(alike)


def _by_tokens(here: Rows, there: Rows, tokens: pl.DataFrame, why: str) -> Paired:
    """A block is a group of the first dump, with the partners of its rollouts."""
    codes = pl.Series(here.cluster_codes[tokens["row"].to_numpy()]).cast(pl.String)
    mine = _nameless(here).scatter(tokens["row"].to_numpy(), codes)
    theirs = _nameless(there).scatter(tokens["row_there"].to_numpy(), codes)
    return _blocks("tokens", why, tokens.height, (here, mine), (there, theirs))


def _nameless(rows: Rows) -> pl.Series:
    return pl.Series([None] * rows.rollouts, dtype=pl.String)


def _common_prompts(here: pl.DataFrame, there: pl.DataFrame) -> int:
    known = there["prompt"].drop_nulls().unique()
    return int(here["prompt"].is_in(known.implode()).sum() or 0)


def _blocks(kind: str, why: str, rollouts: int, mine: tuple[Rows, pl.Series], theirs: tuple[Rows, pl.Series]) -> Paired:
    """Number the blocks: those named alike in both dumps are one, a rollout without a name goes with its own group."""
    named = []
    for side, (rows, names) in (("a", mine), ("b", theirs)):
        own = side + pl.Series(rows.cluster_codes).cast(pl.String)
        named.append(np.where(names.is_null().to_numpy(), own.to_numpy(), names.to_numpy()).astype(str))
    codes, found = np.unique(np.concatenate(named), return_inverse=True)
    here = mine[0].rollouts
    return Paired(kind, why, rollouts, found[:here], found[here:], codes.size)
