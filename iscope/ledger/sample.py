"""A fixed sample of whole rollouts, tokens included, for what no sum over a rollout can show.

The sample is a bottom-k one: every rollout has a key, a hash, and those with the smallest keys are kept until they have
a million tokens. It is the same whatever the order of the dump, its batches, threads and files, and two samples merge
into the one of both dumps. The upper half of a key comes from the group, so that groups are sampled whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from iscope.dump.schema import SETTINGS
from iscope.ledger.measure import Measured
from iscope.ledger.order import order_by
from iscope.recipes.model import Pair
from iscope.rollouts import RolloutBatch

Array = np.ndarray[Any, np.dtype[Any]]

# Rollouts, what was measured of them that a sample needs, and the columns of them that the ledger keeps.
_Batch = tuple[RolloutBatch, dict[str, Array], pl.DataFrame]

TOKENS = 1_000_000
ROLLOUTS = 2**17
ABS_SUM = "abs_sum"  # sum of abs(d) over a rollout's scored tokens, nats

# Memory is bounded to so many samples, and to so many tokens and rollouts of batches that wait, in samples: a few
# batches at a time cost less than each alone.
_HELD, _TOGETHER_TOKENS, _TOGETHER_ROLLOUTS = 4.0, 8.0, 1.0

_LISTS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "loss_mask")
_CONTENT = (f"{Pair.TRAINER_INFERENCE}:log_ratio_sum", "trainer_logprob_sum", "inference_logprob_sum", "tokens")
_ABS_SUM = f"{Pair.TRAINER_INFERENCE}:abs_sum"
_KEY = "key"
_GROUP_BITS = np.uint64(0xFFFFFFFF00000000)


@dataclass(frozen=True)
class Sample:
    """N whole rollouts with P tokens in all, in the order of their keys.

    Attributes:
        rollouts: one row per rollout: its key, its id, ``abs_sum`` and its other columns.
        offsets: int64 [N + 1]; rollout i owns tokens offsets[i]:offsets[i + 1].
        lists: the token columns [P] that the dump has, unusable values and masked tokens included; logprobs in nats,
            float32, ``loss_mask`` bool.
    """

    rollouts: pl.DataFrame
    offsets: Array
    lists: dict[str, Array]

    @classmethod
    def empty(cls) -> Sample:
        """Return a sample without rollouts."""
        frame = pl.DataFrame(schema={_KEY: pl.UInt64, "rollout_id": pl.String, ABS_SUM: pl.Float64})
        return cls(frame, np.zeros(1, dtype=np.int64), {})

    def __len__(self) -> int:
        """Return N, the number of rollouts."""
        return self.rollouts.height

    @property
    def tokens(self) -> int:
        """P, the number of tokens."""
        return int(self.offsets[-1])

    def merge(self, other: Sample) -> Sample:
        """Return the sample of two dumps together."""
        return _smallest([self, other])

    def to_frame(self) -> pl.DataFrame:
        """Return the sample as a table, one row per rollout, token columns as lists."""
        offsets = pa.array(self.offsets)
        lists = [pl.Series(name, pa.LargeListArray.from_arrays(offsets, pa.array(v))) for name, v in self.lists.items()]
        return self.rollouts.hstack(lists)

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Sample:
        """Read what ``to_frame`` wrote."""
        arrays = {name: frame[name].rechunk().to_arrow() for name in _LISTS if name in frame.columns}
        lists = {name: array.flatten().to_numpy(zero_copy_only=False) for name, array in arrays.items()}
        lengths = [frame[name].list.len().to_numpy() for name in arrays][:1]
        return cls(frame.drop(arrays), _offsets(np.concatenate([np.zeros(0), *lengths])), lists)


class SampleBuilder:
    """Collects the sample while batches arrive, in any order."""

    def __init__(self) -> None:
        """Start an empty sample."""
        self._waiting: list[_Batch] = []
        self._parts: list[Sample] = []
        self._limit = np.uint64(2**64 - 1)
        self._held = self._ahead = _Size()

    def add(self, batches: Sequence[RolloutBatch], measured: Measured, described: Sequence[pl.DataFrame]) -> None:
        """Take measured batches; a few are held and looked at together.

        Args:
            batches: the rollouts.
            measured: their rows of the ledger; their keys are made from it.
            described: of each batch, the columns that the ledger keeps.
        """
        needed = {name: measured.columns[name].numpy() for name in (*_CONTENT, _ABS_SUM)}
        for batch, frame, rows in zip(batches, described, _slices(batches), strict=True):
            self._waiting.append((batch, {name: values[rows] for name, values in needed.items()}, frame))
            self._ahead = self._ahead.plus(batch)
        if self._ahead.over(_TOGETHER_TOKENS, _TOGETHER_ROLLOUTS):
            self._look()

    def finish(self) -> Sample:
        """Return the sample of everything seen."""
        self._look()
        return _smallest(self._parts)

    def _look(self) -> None:
        """Copy what can still be in the sample of the batches that wait."""
        found = _keys(self._waiting, self._limit)
        self._lower([(keys, np.diff(batch.offsets.numpy())[rows]) for (batch, _, _), (rows, keys) in found])
        for batch, (rows, keys) in found:
            within = keys <= self._limit
            if within.any():
                self._parts.append(_copy(*batch, keys[within], rows[within]))
                self._held = self._held.plus(self._parts[-1])
        self._waiting, self._ahead = [], _Size()
        if self._held.over(_HELD, _HELD):
            self._parts = [_smallest(self._parts)]
            self._held = _Size().plus(self._parts[0])

    def _lower(self, found: list[tuple[Array, Array]]) -> None:
        """Let nothing in any more whose key is above all those that can still be in the sample.

        Args:
            found: keys and lengths of rollouts beside those that are held.
        """
        held = [(part.rollouts[_KEY].to_numpy(), np.diff(part.offsets)) for part in self._parts]
        keys, lengths = (np.concatenate([np.zeros(0, np.uint64), *parts]) for parts in zip(*held, *found, strict=True))
        order = np.argsort(keys, kind="stable")
        fit = _fitting(lengths[order])
        if fit < keys.size:
            self._limit = keys[order[fit - 1]]


@dataclass(frozen=True)
class _Size:
    """Tokens and rollouts."""

    tokens: int = 0
    rollouts: int = 0

    def plus(self, part: Sample | RolloutBatch) -> _Size:
        return _Size(self.tokens + part.tokens, self.rollouts + len(part))

    def over(self, tokens: float, rollouts: float) -> bool:
        """Whether they are more than so many whole samples have, of one or of the other."""
        return self.tokens > tokens * TOKENS or self.rollouts > rollouts * ROLLOUTS


def in_parts(rows: Array, batches: Sequence[RolloutBatch]) -> list[Array]:
    """Return which rollouts of each batch are meant, int64, given their numbers through all batches, rising."""
    return [rows[slice(*rows.searchsorted([at.start, at.stop]))] - at.start for at in _slices(batches)]


def _slices(batches: Sequence[RolloutBatch]) -> list[slice]:
    """Where the rollouts of each batch stand among those of all."""
    return [slice(*edges) for edges in pairwise([0, *accumulate(map(len, batches))])]


def _smallest(parts: list[Sample]) -> Sample:
    """The rollouts with the smallest keys, in the order of their keys, as many as fit."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return Sample.empty()
    rollouts = pl.concat([part.rollouts for part in parts], how="diagonal_relaxed")
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    order = order_by(rollouts, [_KEY, "rollout_id"])
    return put_together(parts, rollouts, order[: _fitting(lengths[order])])


def _fitting(lengths: Array) -> int:
    """How many rollouts of these lengths, in the order of their keys, are in the sample; one of any is.

    The one that fills it is in: if it were left out, a later one could take its place in a part of the dump, and parts
    would not merge into the sample of the whole.
    """
    before = np.cumsum(lengths) - lengths
    return min(int((before < TOKENS).sum()), ROLLOUTS)


def put_together(parts: list[Sample], rollouts: pl.DataFrame, order: Array) -> Sample:
    """Return some rollouts of several samples.

    Args:
        parts: the samples, none without rollouts.
        rollouts: their rollout columns, one part after the other.
        order: which rollouts, numbered through all parts, one after the other.
    """
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    lists = {name: _arranged([part.lists[name] for part in parts], parts, order) for name in parts[0].lists}
    return Sample(rollouts[order], _offsets(lengths[order]), lists)


def _arranged(arrays: list[Array], parts: list[Sample], order: Array) -> Array:
    """The tokens of rollouts, numbered through all parts, one after the other."""
    part = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[order].tolist()
    start = np.concatenate([part.offsets[:-1] for part in parts])[order].tolist()
    stop = np.concatenate([part.offsets[1:] for part in parts])[order].tolist()
    return np.concatenate([arrays[p][a:b] for p, a, b in zip(part, start, stop, strict=True)])


def _copy(batch: RolloutBatch, measured: dict[str, Array], described: pl.DataFrame, keys: Array, rows: Array) -> Sample:
    settings = [_plain(batch.columns[name][rows]) for name in SETTINGS if name in batch.columns.columns]
    sizes = pl.Series(ABS_SUM, measured[_ABS_SUM][rows])
    chosen = described[rows]
    if settings:
        chosen = chosen.drop([one.name for one in settings], strict=False)
    return copied(batch, chosen.hstack([pl.Series(_KEY, keys), sizes, *settings]), rows)


def copied(batch: RolloutBatch, rollouts: pl.DataFrame, rows: Array) -> Sample:
    """Return some rollouts of a batch with their tokens.

    Args:
        batch: the batch.
        rollouts: the columns of the rollouts chosen, [M].
        rows: int64 [M], where they are in the batch.
    """
    offsets = batch.offsets.numpy()
    columns = {name: values for name in _LISTS if (values := getattr(batch, name)) is not None}
    lists = {name: _gather(values.numpy(), offsets, rows) for name, values in columns.items()}
    lists = {name: v if name == "loss_mask" else v.astype(np.float32, copy=False) for name, v in lists.items()}
    return Sample(rollouts, _offsets(np.diff(offsets)[rows]), lists)


def _plain(series: pl.Series) -> pl.Series:
    """A setting as a number where it is one, else as text."""
    if series.dtype.is_numeric():
        return series.cast(pl.Float64)
    return (
        series.cast(pl.String, strict=False)
        if not series.dtype.is_nested()
        else pl.Series(series.name, [None] * len(series), pl.String)
    )


def _offsets(lengths: Array) -> Array:
    return np.concatenate([[0], lengths]).cumsum().astype(np.int64)


def _gather(values: Array, offsets: Array, rows: Array) -> Array:
    """The values of some rollouts, one after the other; runs of neighbours are copied at once."""
    if not rows.size:
        return values[:0].copy()
    ends = np.append(np.flatnonzero(np.diff(rows) != 1), rows.size - 1)
    first = np.append(0, ends[:-1] + 1)
    slices = zip(offsets[rows[first]].tolist(), offsets[rows[ends] + 1].tolist(), strict=True)
    return np.concatenate([values[start:stop] for start, stop in slices])


def _keys(batches: Sequence[_Batch], limit: np.uint64) -> list[tuple[_Batch, tuple[Array, Array]]]:
    """Return with each batch the rollouts whose keys are at most a limit, int64, and their keys.

    A key is what was measured, hashed. The upper half comes from the group, where there is one: few rollouts need to be
    looked at any further.
    """
    if not batches:
        return []
    group, grouped = _group_bits([described for _, _, described in batches])
    rows = np.flatnonzero((group <= limit) | ~grouped)
    content = np.zeros(rows.size, dtype=np.uint64)
    for name in _CONTENT:
        columns = [measured[name].astype(np.float64) for _, measured, _ in batches]
        values = np.concatenate(columns)[rows] + 0.0  # -0 becomes 0
        content = _mix(content ^ values.view(np.uint64))
    keys = np.where(grouped[rows], group[rows] | (content >> np.uint64(32)), content)
    rows, keys = rows[keys <= limit], keys[keys <= limit]
    starts = np.cumsum([0, *(len(batch) for batch, _, _ in batches)])
    edges = rows.searchsorted(starts).tolist()
    found = [(rows[a:b] - start, keys[a:b]) for (a, b), start in zip(pairwise(edges), starts, strict=False)]
    return list(zip(batches, found, strict=True))


def _group_bits(described: Sequence[pl.DataFrame]) -> tuple[Array, Array]:
    """The upper half of the key of each rollout's group [N], and whether it has one."""
    ids = [
        frame["group_id"].cast(pl.String).rechunk().to_arrow()
        if "group_id" in frame.columns
        else pa.nulls(frame.height, pa.large_string())
        for frame in described
    ]
    coded = pa.concat_arrays(ids).dictionary_encode()
    sums = [zlib.crc32(group.encode()) for group in coded.dictionary.to_pylist()]
    bits = _mix(np.array([*sums, 0], dtype=np.uint64)) & _GROUP_BITS
    known = coded.indices.is_valid().to_numpy(zero_copy_only=False)
    return bits[coded.indices.fill_null(len(sums)).to_numpy(zero_copy_only=False)], known


def _mix(bits: Array) -> Array:
    """The finaliser of splitmix64: every bit of the input moves every bit of the output."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
