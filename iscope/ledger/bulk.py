"""Sums over the tokens inside the screen, which no recipe touches: computed once, block by block, for all recipes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.ledger.gradient import by_sign, can_differentiate
from iscope.ledger.plan import Plan
from iscope.recipes.model import Loss, Pair
from iscope.replay.losses import base_coefficient, is_plain
from iscope.replay.segments import Segments, expm1
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]


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


def join(parts: list[Bulk]) -> Bulk:
    """Put the bulks of consecutive rollouts together."""

    def cat(group: list[Columns]) -> Columns:
        return {name: torch.cat([columns[name] for columns in group]) for name in group[0]}

    return Bulk(
        n=torch.cat([part.n for part in parts]),
        pairs={pair: cat([part.pairs[pair] for part in parts]) for pair in parts[0].pairs},
        gradients={key: cat([part.gradients[key] for part in parts]) for key in parts[0].gradients},
    )


def nothing(rows: int, like: Bulk) -> Bulk:
    """Return the bulk of a recipe that is replayed on every token: no token is inside."""
    empty = {pair: {name: _empty(name, rows) for name in columns} for pair, columns in like.pairs.items()}
    zeros = {key: {name: torch.zeros(rows, dtype=torch.float64) for name in c} for key, c in like.gradients.items()}
    return Bulk(torch.zeros(rows, dtype=torch.int64), empty, zeros)


def _empty(name: str, rows: int) -> Tensor:
    value = {"log_ratio_min": float("inf"), "log_ratio_max": float("-inf")}.get(name, 0.0)
    return torch.full((rows,), value, dtype=torch.float64)


def measure_bulk(block: TokenView, outside: Tensor, plan: Plan, pairs: list[Pair]) -> Bulk:
    """Sum a block's tokens but for those at the given positions.

    Args:
        block: the tokens of some rollouts.
        outside: int64, positions outside the screen.
        plan: the plan.
        pairs: the pairs to measure.
    """
    segments = block.segments
    out = torch.bincount(segments.row_of(outside), minlength=segments.rows)
    exact = {pair: _without(block.exact(pair), outside) for pair in pairs}
    excess = {pair: expm1(d) for pair, d in exact.items()}
    sums = {pair: _pair_sums(segments, exact[pair], excess[pair], out) for pair in pairs}
    for pair in pairs:
        kept = block.log_ratio(pair)
        low, high = kept.index_fill(0, outside, float("inf")), kept.index_fill(0, outside, float("-inf"))
        sums[pair]["log_ratio_min"] = segments.min(low).double()
        sums[pair]["log_ratio_max"] = segments.max(high).double()
    gradients: dict[tuple[int, Pair | None], Columns] = {}
    for index, base in enumerate(plan.bases):
        if can_differentiate(block, base):
            gradients |= _gradients(block, base, index, outside, excess)
    return Bulk(segments.lengths - out, sums, gradients)


def _without(values: Tensor, outside: Tensor) -> Tensor:
    return values.index_fill(0, outside, 0.0)


def _pair_sums(segments: Segments, exact: Tensor, excess: Tensor, out: Tensor) -> Columns:
    """Sums over a rollout; the tokens outside hold 0 and add nothing (exp(0) = 1 is taken off again)."""
    magnitude = exact.abs()
    return {
        "log_ratio_sq": segments.sum(exact * exact),
        "abs_sum": segments.sum(magnitude),
        "exp_abs_sum": segments.sum(magnitude.exp()) - out,
        "excess_sum": segments.sum(excess),
        "excess_sq": segments.sum(excess * excess),
        "k3_sum": segments.sum(excess - exact),
    }


def _gradients(
    block: TokenView, base: Loss, index: int, outside: Tensor, excess: dict[Pair, Tensor]
) -> dict[tuple[int, Pair | None], Columns]:
    """Gradient of the uncorrected loss, and of the one weighted with each pair's ratio."""
    plain = is_plain(block, base)
    if plain and base.signal == "advantage" and not block.advantage_per_token:
        size = block.uncertainty
    else:
        size = base_coefficient(block, base).abs() * block.uncertainty
        plain = False
    size = _without(size, outside)
    found: dict[tuple[int, Pair | None], Columns] = {(index, None): by_sign(block, base, size, scale=plain)}
    for pair, e in excess.items():
        if pair in (Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE):
            found[index, pair] = by_sign(block, base, (size * e).add_(size), scale=plain)
    return found
