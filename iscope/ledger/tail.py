"""The largest token log-ratios of a dump: a multiset of fixed size, whatever the order, batches, threads or files.

The shape of the upper tail of the ratios (Pareto k-hat) is read from them. A tail takes 3 sqrt(n) of n tokens and one
more, so ``KEPT`` of them do for up to ``LARGEST_DUMP`` tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from iscope.recipes.model import Pair
from iscope.replay.view import TokenView

KEPT = 2**17
LARGEST_DUMP = ((KEPT - 1) // 3) ** 2

# So many values of a batch are looked at for a floor, which as many are to exceed as are kept, and some more.
_LOOKED_AT, _MORE = 2**13, 1.2

Values = np.ndarray[Any, np.dtype[np.floating[Any]]]
Tails = dict[str, Values]

# The pairs whose ratios weight a token: the others have no use for a tail.
_PAIRS = (Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE)


class BatchTail:
    """Collects from one batch what may be among the largest log-ratios, by pair."""

    def __init__(self, floors: Mapping[str, float] | None = None) -> None:
        """Take the values that log-ratios must exceed, by pair; without one all are taken."""
        self._floors = floors or {}
        self._found: dict[str, list[Values]] = {}

    def floor(self, pair: Pair, log_ratio: Values | None = None) -> float:
        """What a pair's log-ratios must exceed to be taken; infinite where none are.

        Args:
            pair: the pair.
            log_ratio: all of the batch [P], nats: where no floor is known they can have one of their own.
        """
        if pair not in _PAIRS:
            return math.inf
        known = self._floors.get(str(pair), -math.inf)
        return _floor_of(log_ratio) if log_ratio is not None and known == -math.inf else known

    def take(self, pairs: Iterable[Pair], values: Iterable[Values]) -> None:
        """Take the log-ratios of each pair that exceed its floor, in the precision of its decisions."""
        for pair, found in zip(pairs, values, strict=True):
            if pair in _PAIRS:
                self._found.setdefault(str(pair), []).append(found)

    def add(self, view: TokenView, pairs: Iterable[Pair]) -> None:
        """Look at the tokens of a view, wherever they are."""
        pairs = [pair for pair in pairs if pair in _PAIRS]
        self.take(pairs, (_above(view.log_ratio(pair), self.floor(pair)) for pair in pairs))

    def tails(self) -> Tails:
        """Return what was found, in no order."""
        return {pair: np.concatenate(parts) for pair, parts in self._found.items()}


class TailBuilder:
    """Collects the largest log-ratios of a dump, by pair.

    Attributes:
        floors: what a log-ratio must exceed to count. A floor only rises, and as many as are kept lie at it or above: a
            batch may be cut at an older one, and what comes out is the same.
    """

    def __init__(self) -> None:
        """Start without any."""
        self.floors: dict[str, float] = {}
        self._parts: dict[str, list[Values]] = {}

    def add(self, tails: Mapping[str, Values]) -> None:
        """Add those of a batch or of a ledger."""
        for pair, values in tails.items():
            parts = self._parts.setdefault(pair, [])
            parts.append(values)
            if sum(part.size for part in parts) >= 2 * KEPT:
                kept = _largest(parts)
                self._parts[pair], self.floors[pair] = [kept], float(kept.min())

    def finish(self) -> Tails:
        """Return the largest of each pair, at most ``KEPT``, in rising order."""
        return {pair: np.sort(_largest(parts)) for pair, parts in sorted(self._parts.items())}


def put_together(parts: Sequence[Tails]) -> Tails:
    """Return what was found in several batches, in no order."""
    return parts[0] if len(parts) == 1 else {pair: np.concatenate([part[pair] for part in parts]) for pair in parts[0]}


def merge_tails(parts: Iterable[Mapping[str, Values]]) -> Tails:
    """Put the tails of several ledgers together."""
    builder = TailBuilder()
    for part in parts:
        builder.add(part)
    return builder.finish()


def _floor_of(values: Values) -> float:
    """A value that at least as many of the values [P] exceed as are kept, and not many more; else -inf.

    It is found by a look at a few: without it all values of the first batches would be held.
    """
    some = values[:: max(1, values.size // _LOOKED_AT)]
    above = math.ceil(_MORE * KEPT / max(values.size, 1) * some.size)
    if above >= some.size:
        return -math.inf
    floor = np.partition(some, some.size - above)[some.size - above]
    return float(floor) if np.count_nonzero(values > floor) >= KEPT else -math.inf


def _above(log_ratio: Tensor, floor: float) -> Values:
    """The values [P] above the floor, on the CPU."""
    found: Values = log_ratio[log_ratio > floor].cpu().numpy()
    return found


def _largest(parts: list[Values]) -> Values:
    values = np.concatenate(parts)
    return values if values.size <= KEPT else np.partition(values, values.size - KEPT)[-KEPT:]
