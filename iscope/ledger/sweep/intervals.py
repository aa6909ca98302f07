"""Interval sums: tokens sorted once into the intervals between all bounds of a family, for all of its settings.

A token that a bound rejects is rejected by every bound further in, so its level on either side, how many bounds reject
it, says what each setting does with it. The sums of a setting are those of the tokens that no bound rejects, plus those
of the levels that its bounds keep, from the inside out: additions of what is there, never differences of larger sums.
Levels come from the statistic in the precision of the decisions, and are those of the recipes themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from torch import Tensor

from iscope.ledger.split import Split
from iscope.ledger.sweep.families import TokenFamily
from iscope.ledger.sweep.levels import QUANTITIES, Tables, tables_of
from iscope.recipes.model import Aggregation, Loss
from iscope.replay.segments import Array

# Sign classes of rollouts: A > 0, A = 0, A < 0, and those without one advantage.
CLASSES = 4
ROLLOUT_SUMS = ("gradient_sq", "mean_weight", "mean_weight_sq", "away")
_LOG_TWO = math.log(2.0)
_CELLS = 2**20  # settings x rollouts at a time


@dataclass(frozen=True)
class FamilySums:
    """What some batches add to a family of K = 1 + L + H intervals and S settings.

    Intervals: those within all bounds, then by level below, then by level above.

    Attributes:
        counts: int64 [CLASSES, K], tokens.
        sums: float64 [len(QUANTITIES), K]; gradients over what their rollout's loss is divided by.
        settings: float64 [len(ROLLOUT_SUMS), S], sums over rollouts.
        highest: int64 [CLASSES, L + 1, H + 1], rollouts by the highest levels of their tokens.
        uncut: int64 [CLASSES, L + 1, H + 1], those of them without a token that a bound of the weight's own cuts.
        cut: int64 [2, CLASSES, K], tokens that such a bound raises, and cuts.
        lowest: int64 [CLASSES, L + 2, H + 2], rollouts without a token within all bounds, by the lowest levels of their
            tokens below and above; L + 1 and H + 1 where there are none.
        groups: by group, the lowest levels of a token with gradient, for either sign.
    """

    counts: Array
    sums: Array
    settings: Array
    highest: Array
    uncut: Array
    cut: Array
    lowest: Array
    groups: pl.DataFrame

    def add(self, others: Sequence[FamilySums]) -> FamilySums:
        """Return the sums of all batches, in an order that does not depend on the order of these."""
        parts = sorted([self, *others], key=lambda part: (part.settings.tobytes(), part.sums.tobytes()))
        groups = pl.concat([part.groups for part in parts])
        keys = [name for name in groups.columns if name != "group"]
        return FamilySums(
            counts=np.sum([part.counts for part in parts], axis=0),
            sums=np.sum([part.sums for part in parts], axis=0),
            settings=np.sum([part.settings for part in parts], axis=0),
            highest=np.sum([part.highest for part in parts], axis=0),
            uncut=np.sum([part.uncut for part in parts], axis=0),
            cut=np.sum([part.cut for part in parts], axis=0),
            lowest=np.sum([part.lowest for part in parts], axis=0),
            groups=groups.group_by("group").agg(pl.col(name).min() for name in keys).sort("group"),
        )


def chosen_levels(family: TokenFamily) -> tuple[Array, Array]:
    """How far out each setting keeps, int64 [S] below and above; L and H where it has no bound."""
    lows, highs = len(family.lows), len(family.highs)
    low = [lows if low is None else low for low, _ in family.settings]
    high = [highs if high is None else high for _, high in family.settings]
    return np.array(low, dtype=np.int64), np.array(high, dtype=np.int64)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def measure_family(
    split: Split, family: TokenFamily, base: int, loss_tokens: Tensor, signs: Array, groups: pl.Series | None
) -> FamilySums:
    """Sum a batch of N rollouts.

    Args:
        split: its tokens, those that no setting of the family touches summed up.
        family: the family.
        base: index of its uncorrected loss among the plan's.
        loss_tokens: int64 [N], of each rollout, scored or not.
        signs: int64 [N], the class of each rollout.
        groups: the group of each rollout; None where there are none.
    """
    tables = tables_of(split, family, base)
    present = np.flatnonzero(tables.n > 0)
    tables, signs = tables.of_rows(present), signs[present]
    scale = relative_scale(family.tight.loss, loss_tokens.cpu().numpy()[present])
    for name in QUANTITIES[3:]:
        tables.sums[name] *= scale[:, None]
    shape, highest = (tables.lows + 1, tables.highs + 1), _highest(tables)
    whole = tables.cut.sum((0, 2)) == 0
    return FamilySums(
        counts=_by_class(signs, tables.counts),
        sums=np.stack([tables.sums[name].sum(0) for name in QUANTITIES]),
        settings=_settings(tables, family),
        highest=_table(signs, *highest, shape),
        uncut=_table(signs[whole], highest[0][whole], highest[1][whole], shape),
        cut=np.stack([_by_class(signs, table) for table in tables.cut]),
        lowest=_table(*_lowest(tables, signs), (shape[0] + 1, shape[1] + 1)),
        groups=_groups(tables, family, None if groups is None else groups[present]),
    )


def _by_class(signs: Array, table: Array) -> Array:
    return np.stack([table[signs == sign].sum(0) for sign in range(CLASSES)])


def relative_scale(loss: Loss, loss_tokens: Array) -> Array:
    """What each rollout's gradient is multiplied with, but for a factor common to the dump [N]."""
    if loss.aggregation is Aggregation.SEQ_MEAN_TOKEN_MEAN:
        return np.asarray(1.0 / (np.maximum(loss_tokens, 1) + loss.denominator.count_epsilon))
    return np.ones(loss_tokens.size)


def _settings(tables: Tables, family: TokenFamily) -> Array:
    """The sums over rollouts that no sum by interval gives, float64 [len(ROLLOUT_SUMS), S]."""
    low, high = chosen_levels(family)
    below, above = zip(*(tables.sides(name, family) for name in ("weight", "positive", "negative")), strict=True)
    found = np.zeros((len(ROLLOUT_SUMS), low.size))
    rows = tables.n.size
    step = max(1, _CELLS // max(1, low.size))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        weight, positive, negative = (
            one[part].T[low] + other[part].T[high] for one, other in zip(below, above, strict=True)
        )
        mean, gradient = weight / tables.n[part], positive + negative
        off = ~(np.abs(tables.log_ratio_sum[part] - np.log(mean)) <= _LOG_TWO)
        parts = (np.square(gradient), mean, np.square(mean), gradient * off)
        found += np.stack([values.sum(1) for values in parts])
    return found


def _highest(tables: Tables) -> tuple[Array, Array]:
    """The highest level of a token of each rollout, below and above; 0 where it has none."""
    below, above = tables.counts[:, 1 : tables.lows + 1] > 0, tables.counts[:, tables.lows + 1 :] > 0
    return _last(below), _last(above)


def _last(flags: Array) -> Array:
    """Number of the last flag set in each row, from 1; 0 where none is."""
    width = flags.shape[1]
    if not width:
        return np.zeros(len(flags), dtype=np.int64)
    return np.asarray(np.where(flags.any(1), width - flags[:, ::-1].argmax(1), 0))


def _first(flags: Array) -> Array:
    """Number of the first flag set in each row, from 1; one more than there are where none is."""
    width = flags.shape[1]
    if not width:
        return np.ones(len(flags), dtype=np.int64)
    return np.asarray(np.where(flags.any(1), flags.argmax(1) + 1, width + 1))


def _lowest(tables: Tables, signs: Array) -> tuple[Array, Array, Array]:
    """Class and lowest levels of the rollouts that have no token within all bounds."""
    alone = tables.counts[:, 0] == 0
    counts = tables.counts[alone]
    return signs[alone], _first(counts[:, 1 : tables.lows + 1] > 0), _first(counts[:, tables.lows + 1 :] > 0)


def _table(signs: Array, low: Array, high: Array, shape: tuple[int, int]) -> Array:
    """Count rollouts by class and two levels, int64 [CLASSES, *shape]."""
    code = (signs * shape[0] + low) * shape[1] + high
    return np.asarray(np.bincount(code, minlength=CLASSES * shape[0] * shape[1]).reshape(CLASSES, *shape))


def _groups(tables: Tables, family: TokenFamily, groups: pl.Series | None) -> pl.DataFrame:
    columns: dict[str, pl.Series | Array] = {}
    for sign in ("positive", "negative"):
        table = tables.sums[sign] + tables.sums[f"{sign}_at_1"] if family.kind == "truncate" else tables.sums[sign]
        whole = table if family.kind == "truncate" else table[:, :1]
        inner = (whole > 0).any(1)
        columns[f"{sign}_low"] = np.where(inner, 0, _first(table[:, 1 : tables.lows + 1] > 0))
        columns[f"{sign}_high"] = np.where(inner, 0, _first(table[:, tables.lows + 1 :] > 0))
    found = pl.DataFrame(columns)
    if groups is None:
        return found.clear().with_columns(group=pl.lit(None, pl.String)).head(0)
    named = found.with_columns(group=groups.cast(pl.String)).filter(pl.col("group").is_not_null())
    return named.group_by("group").agg(pl.all().min())
