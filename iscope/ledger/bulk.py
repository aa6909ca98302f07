"""Sums over the tokens inside the screen, which no recipe touches: computed once, block by block, for all recipes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from iscope.ledger.arranged import BUCKETS, Arranged
from iscope.ledger.by_p import by_bucket
from iscope.ledger.gradient import can_differentiate, total_by_sign
from iscope.ledger.plan import Plan
from iscope.ledger.sheet import Rows, Sheet
from iscope.recipes.model import Loss, Pair
from iscope.replay.losses import base_coefficient, is_plain, signal_of
from iscope.replay.segments import Array
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]

_SIGNS = ("gradient_positive", "gradient_negative")
_SUMS = ("log_ratio_sq", "abs_sum", "exp_abs_sum", "excess_sum", "excess_sq", "k3_sum")
# The pairs whose ratio can weight a gradient.
_WEIGHTING = (Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE)

# A pair (None: of no pair) and what is summed.
_Key = tuple[Pair | None, str]


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
        pair: {name: column() for name in _SUMS}
        | {"log_ratio_min": column(float("inf")), "log_ratio_max": column(float("-inf"))}
        for pair in pairs
    }
    zeros = {key: {name: column() for name in _SIGNS} for key in gradients}
    return Bulk(torch.zeros(rows, dtype=torch.int64, device=device), empty, zeros)


class BulkBuilder:
    """Sums block by block; what is one value per rollout waits until all blocks are done."""

    def __init__(self, view: TokenView, plan: Plan, pairs: list[Pair], sheet: Sheet) -> None:
        """Start without a block.

        Args:
            view: the tokens of all blocks.
            plan: the plan.
            pairs: the pairs to measure, trainer over inference among them.
            sheet: memory to calculate in.
        """
        self._view, self._sheet = view, sheet
        self._pairs = pairs
        self._sums: dict[_Key, list[Array]] = defaultdict(list)
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

    def add(self, inside: Arranged, block: TokenView, start: int) -> None:
        """Sum the tokens inside the screen of a block whose tokens begin at ``start`` of the view."""
        exact, certainty, excess, free = self._sheet.rows(4, len(inside.places))
        tokens = slice(start, start + block.segments.tokens)
        _fill_certainty(certainty, inside.take(block.policy.numpy()))
        self._append((None, "tokens"), inside.segments.lengths.numpy())
        self._append((None, "certainty"), inside.sum(certainty))
        if block.advantage is not None and block.advantage_per_token:
            np.multiply(certainty, np.abs(inside.take(block.advantage.numpy())), out=free)
            self._append((None, "advantage"), inside.sum(free))
        self._add_gradients(inside, tokens, None, certainty)
        for pair in self._pairs:
            log_ratio = inside.take(block.log_ratio(pair).numpy())
            self._append((pair, "log_ratio_min"), inside.segments.reduce(np.minimum, log_ratio, np.inf))
            self._append((pair, "log_ratio_max"), inside.segments.reduce(np.maximum, log_ratio, -np.inf))
            np.copyto(exact, log_ratio)
            for name, values in _quantities(exact, certainty, excess, free):
                self._append((pair, name), inside.sum(values))
            if pair in _WEIGHTING:
                self._add_gradients(inside, tokens, pair, free)

    def _append(self, key: _Key, values: Array) -> None:
        self._sums[key].append(values.reshape(BUCKETS, -1))

    def _add_gradients(self, inside: Arranged, tokens: slice, pair: Pair | None, weighted: Array) -> None:
        """Add gradients whose coefficients differ within a rollout, from the weight times p - 1 of each token [Q]."""
        for index, sizes, signals in self._others:
            size, signal = inside.take(sizes[tokens]) * -weighted, inside.take(signals[tokens])
            for name, side in (("gradient_positive", signal > 0), ("gradient_negative", signal < 0)):
                self._append((pair, f"{name}{index}"), inside.sum(np.where(side, size, 0.0)))

    def finish(self) -> tuple[Bulk, Columns]:
        """Return the sums, and the columns by q as ``measure_by_p`` names them."""
        tables = {key: torch.from_numpy(np.concatenate(parts, axis=1)) for key, parts in self._sums.items()}
        by_p = {"tokens": tables[None, "tokens"]}
        by_p |= {name: tables[Pair.TRAINER_INFERENCE, f"{name}_sum"] for name in ("k3", "abs")}
        if self._view.advantage is not None:
            by_p["gradient"] = -tables[None, "advantage" if self._view.advantage_per_token else "certainty"]
        pairs: dict[Pair, Columns] = {}
        for pair in self._pairs:
            pairs[pair] = {name: _over_buckets(tables[pair, name]) for name in _SUMS}
            pairs[pair]["log_ratio_min"] = tables[pair, "log_ratio_min"].amin(0).double()
            pairs[pair]["log_ratio_max"] = tables[pair, "log_ratio_max"].amax(0).double()
        n = _over_buckets(by_p["tokens"])
        return Bulk(n, pairs, self._gradients(tables)), by_bucket(self._view, by_p)

    def _gradients(self, tables: dict[_Key, Tensor]) -> dict[tuple[int, Pair | None], Columns]:
        weights = [None, *(pair for pair in self._pairs if pair in _WEIGHTING)]
        found: dict[tuple[int, Pair | None], Columns] = {}
        for pair in weights:
            total = -_over_buckets(tables[pair, "certainty"])
            for index, base in self._plain:
                found[index, pair] = total_by_sign(self._view, base, total)
            for index, _, _ in self._others:
                found[index, pair] = {name: _over_buckets(tables[pair, f"{name}{index}"]) for name in _SIGNS}
        return found


def _over_buckets(table: Tensor) -> Tensor:
    """Sum [BUCKETS, N] to [N], one bucket after the other: torch.sum need not go the same way in every column."""
    total: Tensor = reduce(torch.add, table)
    return total


def _fill_certainty(row: Rows, policy: Array) -> None:
    """Minus ``TokenView.uncertainty``: p - 1."""
    np.copyto(row, policy)
    np.expm1(row, out=row)
    np.fmin(row, 0.0, out=row)


def _quantities(exact: Rows, certainty: Rows, excess: Rows, free: Rows) -> Iterator[tuple[str, Rows]]:
    """Yield what is summed of each token, one after the other in little memory: each is gone when the next one comes.

    Args:
        exact: float64 [Q], d.
        certainty: float64 [Q], p - 1.
        excess: memory, [Q].
        free: memory, [Q]; at the end the weight times p - 1.
    """
    yield "log_ratio_sq", np.square(exact, out=free)
    yield "abs_sum", np.abs(exact, out=free)
    yield "exp_abs_sum", np.exp(free, out=free)
    yield "excess_sum", np.expm1(exact, out=excess)
    yield "excess_sq", np.square(excess, out=free)
    yield "k3_sum", np.subtract(excess, exact, out=free)
    np.multiply(excess, certainty, out=free)
    yield "certainty", np.add(free, certainty, out=free)
