"""Sums over the tokens inside the screen, which no recipe touches: computed once, block by block, for all recipes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from iscope.ledger.by_p import by_bucket
from iscope.ledger.gradient import can_differentiate, total_by_sign
from iscope.ledger.kernels import ratios, tokens
from iscope.ledger.kernels.extremes import Extremes
from iscope.ledger.plan import Plan
from iscope.ledger.scratch import Scratch
from iscope.recipes.model import Loss, Pair
from iscope.replay.losses import base_coefficient, is_plain, signal_of
from iscope.replay.segments import Array
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]

_SIGNS = ("gradient_positive", "gradient_negative")
# The pairs whose ratio can weight a gradient.
_WEIGHTING = (Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE)


@dataclass(frozen=True)
class Bulk:
    """Per-rollout sums over the tokens inside the screen.

    Attributes:
        n: int64 [N], tokens inside.
        pairs: by pair: sums of d^2, abs(d), exp(abs(d)), rho - 1, (rho - 1)^2, k3, and the range of d.
        gradients: by index of the base and pair (None: weight 1): gradient by sign of the signal.
    """

    n: Tensor
    pairs: dict[Pair, Columns]
    gradients: dict[tuple[int, Pair | None], Columns]


def nothing(rows: int, like: Bulk) -> Bulk:
    """Return the bulk of a recipe that is replayed on every token: no token is inside."""
    return empty_bulk(rows, like.pairs, like.gradients, like.n.device)


def empty_bulk(
    rows: int, pairs: Iterable[Pair], gradients: Iterable[tuple[int, Pair | None]], device: torch.device
) -> Bulk:
    """Return the bulk of N rollouts without a token inside, for these pairs and these gradients."""

    def column(value: float = 0.0) -> Tensor:
        return torch.full((rows,), value, dtype=torch.float64, device=device)

    empty = {
        pair: {name: column() for name in ratios.SUMS[:-1]}
        | {"log_ratio_min": column(float("inf")), "log_ratio_max": column(float("-inf"))}
        for pair in pairs
    }
    zeros = {key: {name: column() for name in _SIGNS} for key in gradients}
    return Bulk(torch.zeros(rows, dtype=torch.int64, device=device), empty, zeros)


class BulkBuilder:
    """Sums block by block; what follows from one value per rollout waits until all blocks are done."""

    def __init__(self, view: TokenView, plan: Plan, pairs: list[Pair], scratch: Scratch) -> None:
        """Start without a block.

        Args:
            view: the tokens of all blocks.
            plan: the plan.
            pairs: the pairs to measure, trainer over inference first.
            scratch: memory to calculate in.
        """
        rows = view.segments.rows
        self._view, self._scratch = view, scratch
        self._pairs = pairs
        kind = np.dtype(str(view.inference.dtype).removeprefix("torch."))
        self._edges = np.log(tokens.EDGES).astype(kind)
        self._buckets = np.empty((4, tokens.BUCKETS, rows))
        self._sums = {pair: np.empty((len(ratios.SUMS), rows)) for pair in pairs}
        self._extremes = {pair: Extremes(rows, kind) for pair in pairs}
        self._plain: list[tuple[int, Loss]] = []
        self._others: list[tuple[int, Array, Array]] = []
        for index, base in enumerate(plan.bases):
            if base.couples_tokens or not can_differentiate(view, base):
                continue
            if is_plain(view, base) and base.signal == "advantage" and not view.advantage_per_token:
                self._plain.append((index, base))
            else:
                size, signal = base_coefficient(view, base).abs(), signal_of(view, base)
                self._others.append((index, size.numpy(), signal.numpy()))
        self._signed = {
            (index, pair): np.empty((2, rows)) for index, _, _ in self._others for pair in (None, *self._weighting())
        }

    def add(self, block: TokenView, flags: Array, row: int, start: int) -> None:
        """Sum the tokens of a block that are inside the screen.

        Args:
            block: the tokens [P].
            flags: bool [P], those outside.
            row: the first rollout of the block.
            start: the first token of the block.
        """
        offsets, size = block.segments.offsets.numpy(), len(flags)
        codes = self._scratch.column("codes", np.float32, size)
        certainty, excess, k3, free = (
            self._scratch.column(name, np.float64, size) for name in ("certainty", "excess", "k3", "free")
        )
        tokens.fill_codes(codes, block.inference.numpy(), flags, self._edges)
        ratios.fill_certainty(certainty, block.policy.numpy())
        self._add_signed(None, row, offsets, codes, certainty, start)
        for pair in self._pairs:
            log_ratio = block.log_ratio(pair).numpy()
            ratios.fill_excess(excess, k3, log_ratio)
            ratios.sum_inside(self._sums[pair], row, offsets, codes, log_ratio, excess, k3, certainty)
            self._extremes[pair].add(row, offsets, codes, log_ratio)
            if pair is Pair.TRAINER_INFERENCE:
                weighted = self._times_advantage(block, certainty, free)
                tokens.sum_buckets(self._buckets, row, offsets, codes, weighted, k3, log_ratio)
            if self._others and pair in _WEIGHTING:
                np.multiply(excess, certainty, out=free)
                np.add(free, certainty, out=free)
                self._add_signed(pair, row, offsets, codes, free, start)

    def _times_advantage(self, block: TokenView, certainty: Array, free: Array) -> Array:
        """``p - 1`` times abs(A) where that differs within a rollout, else p - 1 [P]."""
        if block.advantage is None or not block.advantage_per_token:
            return certainty
        weighted: Array = np.multiply(certainty, np.abs(block.advantage.numpy()), out=free)
        return weighted

    def _add_signed(
        self, pair: Pair | None, row: int, offsets: Array, codes: Array, weighted: Array, start: int
    ) -> None:
        """Add gradients whose coefficients differ within a rollout, from the weight times p - 1 of each token [P]."""
        block = slice(start, start + len(codes))
        for index, sizes, signals in self._others:
            sums = self._signed[index, pair]
            ratios.sum_by_sign(sums, row, offsets, codes, weighted, sizes[block], signals[block])

    def _weighting(self) -> list[Pair]:
        return [pair for pair in self._pairs if pair in _WEIGHTING]

    def finish(self) -> tuple[Bulk, Columns]:
        """Return the sums, and the columns by q as ``measure_by_p`` names them."""
        buckets = torch.from_numpy(self._buckets)
        by_p = {"tokens": buckets[0].long(), "k3": buckets[1], "abs": buckets[2]}
        if self._view.advantage is not None:
            by_p["gradient"] = -buckets[3]
        pairs: dict[Pair, Columns] = {}
        for pair in self._pairs:
            names = (*ratios.SUMS[:-1], "log_ratio_min", "log_ratio_max")
            found = torch.from_numpy(np.concatenate([self._sums[pair][:-1], self._extremes[pair].finish()]))
            pairs[pair] = dict(zip(names, found, strict=True))
        return Bulk(by_p["tokens"].sum(0), pairs, self._gradients()), by_bucket(self._view, by_p)

    def _gradients(self) -> dict[tuple[int, Pair | None], Columns]:
        totals: dict[Pair | None, Array] = {pair: self._sums[pair][-1] for pair in self._weighting()}
        if self._plain:
            totals[None] = self._buckets[3].sum(0)
        found = {
            (index, pair): total_by_sign(self._view, base, torch.from_numpy(-total))
            for pair, total in totals.items()
            for index, base in self._plain
        }
        signed = {key: dict(zip(_SIGNS, torch.from_numpy(sums), strict=True)) for key, sums in self._signed.items()}
        return found | signed
