"""The scored tokens of the ledger's sample as flat arrays, each computed once for all findings that look at it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from iscope.analysis.numbers import Array
from iscope.ledger.sample import ABS_SUM, Sample
from iscope.replay.usable import MAX_POSITIVE, SENTINEL

# A token's sampling probability is near 1 above this logprob; there log-ratios are mostly rounding.
_ALMOST_CERTAIN = float(np.log(0.9))
_HEAD = 2**18
_SIDES = ("trainer_logprobs", "inference_logprobs")


@dataclass(frozen=True)
class Unscored:
    """Loss tokens with an unusable value.

    Attributes:
        rollouts: the id of the rollout of each.
        position: int64, index from the rollout's first loss token.
        length: int64, tokens of the rollout from its first loss token on.
    """

    rollouts: list[str]
    position: Array
    length: Array


@dataclass(frozen=True)
class Tokens:
    """P scored tokens of N sampled rollouts, rollout by rollout; rollouts without one are left out.

    Attributes:
        frame: the rollout columns [N].
        lengths: int64 [N], scored tokens of each rollout; none is 0.
        trainer: float32 [P], nats.
        inference: float32 [P], nats.
        scored: bool, which tokens of the sample these are; None where they are all of them.
        first: int64 [N], where the first loss token of each rollout stands.
        masked: whether the dump has a loss mask.
        unscored: the loss tokens of the sample that are not scored, whatever rollouts these are.
    """

    frame: pl.DataFrame
    lengths: Array
    trainer: Array
    inference: Array
    scored: Array | None
    first: Array
    masked: bool
    unscored: Unscored

    @classmethod
    def of(cls, sample: Sample) -> Tokens:
        """Take the scored tokens out of a sample."""
        mask = sample.lists.get("loss_mask")
        scored = _scored(sample)
        lengths = np.diff(sample.offsets) if scored is None else _counts(scored, sample.offsets)
        kept = np.flatnonzero(lengths)
        empty = np.zeros(0, dtype=np.float32)
        trainer, inference = (sample.lists.get(name, empty) for name in _SIDES)
        return cls(
            frame=sample.rollouts if kept.size == len(sample) else sample.rollouts[kept],
            lengths=lengths[kept].astype(np.int64),
            trainer=trainer if scored is None else trainer[scored],
            inference=inference if scored is None else inference[scored],
            scored=scored,
            first=(sample.offsets[:-1] if mask is None else _first_loss_tokens(mask, sample.offsets))[kept],
            masked=mask is not None,
            unscored=_unscored(sample, mask, scored),
        )

    @property
    def rollouts(self) -> int:
        """N."""
        return self.frame.height

    @property
    def size(self) -> int:
        """P."""
        return int(self.trainer.size)

    @cached_property
    def starts(self) -> Array:
        """int64 [N], where each rollout begins."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def row(self) -> Array:
        """int32 [P], the rollout of each token."""
        return np.repeat(np.arange(self.rollouts, dtype=np.int32), self.lengths)

    def distance(self, places: Array) -> Array:
        """abs(d) of some tokens, given by their places, nats."""
        return np.asarray(np.abs(self.trainer[places] - self.inference[places]))

    @cached_property
    def head(self) -> Tokens:
        """The first rollouts, about a quarter of a million tokens; keys are random, so they are a sample too."""
        count = int(np.searchsorted(np.cumsum(self.lengths), _HEAD)) + 1
        if count >= self.rollouts:
            return self
        end = int(self.lengths[:count].sum())
        return Tokens(
            frame=self.frame[:count],
            lengths=self.lengths[:count],
            trainer=self.trainer[:end],
            inference=self.inference[:end],
            scored=None if self.scored is None else self.scored[: int(self.place[end - 1]) + 1],
            first=self.first[:count],
            masked=self.masked,
            unscored=self.unscored,
        )

    @cached_property
    def place(self) -> Array:
        """int64 [P], where each token stands in the sample."""
        return np.arange(self.size) if self.scored is None else np.flatnonzero(self.scored)

    @cached_property
    def from_the_start(self) -> Array:
        """bool [N], whether the first loss token of each rollout is scored."""
        return np.asarray(self.place[self.starts] == self.first)

    def position(self, place: int) -> int:
        """Index of a token, given by its place in these, from its rollout's first loss token."""
        return int(self.place[place]) - int(self.first[self.row[place]])

    @cached_property
    def log_ratio(self) -> Array:
        """float32 [P], d = trainer - inference, nats."""
        return np.asarray(self.trainer - self.inference)

    @cached_property
    def magnitude(self) -> Array:
        """float32 [P], abs(d), nats."""
        return np.abs(self.log_ratio)

    @cached_property
    def doubtful(self) -> Array:
        """bool [P], whether the sampler gave the token less than 0.9."""
        return np.asarray(self.inference < _ALMOST_CERTAIN)

    @cached_property
    def mean_magnitude(self) -> Array:
        """float64 [N], mean abs(d) of each rollout, nats."""
        return np.asarray(self.frame[ABS_SUM].to_numpy() / self.lengths)

    @cached_property
    def clusters(self) -> Array:
        """int64 [N], the group of each rollout, or the rollout itself where it has none."""
        return cluster_codes(self.frame)

    def part(self, rows: Array) -> Tokens:
        """Return the tokens of some rollouts, by their rows in rising order."""
        chosen = np.zeros(self.rollouts, dtype=bool)
        chosen[rows] = True
        places = chosen[self.row]
        return Tokens(
            frame=self.frame[rows],
            lengths=self.lengths[rows],
            trainer=self.trainer[places],
            inference=self.inference[places],
            scored=self._scored_part(places),
            first=self.first[rows],
            masked=self.masked,
            unscored=self.unscored,
        )

    def _scored_part(self, chosen: Array) -> Array:
        if self.scored is None:
            return chosen
        scored = self.scored.copy()
        scored[self.place[~chosen]] = False
        return scored

    def sum(self, values: Array) -> Array:
        """Sum of values [P] over each rollout, float64 [N]; flags are counted."""
        if not self.rollouts:
            return np.zeros(0)
        return np.add.reduceat(values, self.starts, dtype=np.float64)

    def settings(self, name: str) -> Array | None:
        """A numeric rollout column [N], NaN where it is missing; None where the dump has none."""
        if name not in self.frame.columns or not self.frame[name].dtype.is_numeric():
            return None
        return np.asarray(self.frame[name].cast(pl.Float64).to_numpy())

    def examples(self, places: Array, most: int = 5) -> list[dict[str, Any]]:
        """Rollout id and position of the first of some tokens, given by their places [any]."""
        ids = self.frame["rollout_id"]
        return [{"rollout_id": ids[int(self.row[i])], "position": self.position(int(i))} for i in places[:most]]

    def example_rollouts(self, rows: Array, most: int = 5) -> list[dict[str, Any]]:
        """Rollout id and first position of some rollouts, given by their rows [any]."""
        return self.examples(self.starts[rows[:most]])


def cluster_codes(frame: pl.DataFrame) -> Array:
    """int64 [N] from 0, equal for rollouts of one group; a rollout without a group is its own."""
    alone = np.arange(frame.height, dtype=np.int64)
    if "group_id" not in frame.columns:
        return alone
    groups = frame["group_id"]
    known = groups.is_not_null().to_numpy()
    keys = np.where(known, groups.hash().to_numpy(), alone.astype(np.uint64))
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _counts(scored: Array, offsets: Array) -> Array:
    """int64 [N], how many tokens of each rollout are scored."""
    full = np.diff(offsets) > 0
    counts = np.zeros(full.size, dtype=np.int64)
    if full.any():
        counts[full] = np.add.reduceat(scored, offsets[:-1][full], dtype=np.int64)
    return counts


def _scored(sample: Sample) -> Array | None:
    """bool [P], which tokens are scored; None where all are."""
    mask = sample.lists.get("loss_mask")
    scored = None if mask is None or mask.all() else mask
    for name, values in sample.lists.items():
        # A NaN makes both comparisons false.
        if name != "loss_mask" and values.size and not (values.min() > SENTINEL and values.max() <= MAX_POSITIVE):
            usable = (values > SENTINEL) & (values <= MAX_POSITIVE)
            scored = usable if scored is None else scored & usable
    return scored


def _unscored(sample: Sample, mask: Array | None, scored: Array | None) -> Unscored:
    places = np.zeros(0, dtype=np.int64)
    if scored is not None and scored is not mask:
        places = np.flatnonzero(~scored if mask is None else mask & ~scored)
    row = np.searchsorted(sample.offsets, places, side="right") - 1
    first = sample.offsets[:-1] if mask is None or not places.size else _first_loss_tokens(mask, sample.offsets)
    ids = [str(name) for name in sample.rollouts["rollout_id"].gather(row)]
    return Unscored(ids, places - first[row], sample.offsets[1:][row] - first[row])


def _first_loss_tokens(mask: Array, offsets: Array) -> Array:
    """int64 [N], where each rollout's first loss token stands; anything where it has none."""
    starts = offsets[:-1]
    leading = np.flatnonzero(~mask[np.minimum(starts, max(mask.size - 1, 0))]) if mask.size else starts[:0]
    if not leading.size:
        return starts
    places = np.append(np.flatnonzero(mask), mask.size)
    return np.asarray(places[np.searchsorted(places, starts)])
