"""Sums over the tokens inside the screen, which no recipe touches: computed once, block by block, for all recipes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from iscope.ledger.by_p import by_bucket
from iscope.ledger.gradient import can_differentiate, is_constant, total_by_sign
from iscope.ledger.kernels.extremes import extremes_of
from iscope.ledger.kernels.ratios import SUMS
from iscope.ledger.kernels.walk import Array, Found
from iscope.ledger.plan import Plan
from iscope.recipes.model import Loss, Pair
from iscope.replay.losses import base_coefficient, signal_of
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]

_SIGNS = ("gradient_positive", "gradient_negative")
# The pairs whose ratio can weight a gradient.
WEIGHTING = (Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE)


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
        pair: {name: column() for name in SUMS[:-1]}
        | {"log_ratio_min": column(float("inf")), "log_ratio_max": column(float("-inf"))}
        for pair in pairs
    }
    zeros = {key: {name: column() for name in _SIGNS} for key in gradients}
    return Bulk(torch.zeros(rows, dtype=torch.int64, device=device), empty, zeros)


class Uneven:
    """The uncorrected losses whose coefficients differ within a rollout: what is summed of them token by token.

    Attributes:
        indices: which of the plan's bases they are, M of them.
        sizes: abs(c_t), float64 [M, P].
        signals: what multiplies the score, float64 [M, P].
    """

    def __init__(self, view: TokenView, plan: Plan) -> None:
        """Find them among the plan's bases that this view can differentiate."""
        found = {index: base for index, base in _bases(view, plan) if not is_constant(view, base)}
        self.indices = list(found)
        self.sizes = _stacked(view, [base_coefficient(view, base).abs() for base in found.values()])
        self.signals = _stacked(view, [signal_of(view, base) for base in found.values()])


def _stacked(view: TokenView, columns: list[Tensor]) -> Array:
    none: Array = np.empty((0, view.segments.tokens))
    return np.stack([column.numpy() for column in columns]) if columns else none


def bulk_of(view: TokenView, plan: Plan, pairs: list[Pair], uneven: list[int], found: Found) -> tuple[Bulk, Columns]:
    """What was found of the tokens inside the screen, and the columns by q as ``measure_by_p`` names them.

    Args:
        view: the tokens.
        plan: the plan.
        pairs: the pairs that were measured, trainer over inference first.
        uneven: which of the plan's bases were summed token by token.
        found: the sums.
    """
    buckets = torch.from_numpy(found.buckets)
    by_p = {"tokens": buckets[0].long(), "k3": buckets[1], "abs": buckets[2]}
    if view.advantage is not None:
        by_p["gradient"] = -buckets[3]
    names = (*SUMS[:-1], "log_ratio_min", "log_ratio_max")
    table = torch.from_numpy(np.concatenate([found.inside[:, :-1], extremes_of(found.keys)], axis=1))
    of_pairs = {pair: dict(zip(names, rows, strict=True)) for pair, rows in zip(pairs, table, strict=True)}
    weights: dict[Pair | None, int] = {None: 0, **{p: 1 + k for k, p in enumerate(pairs) if p in WEIGHTING}}
    gradients: dict[tuple[int, Pair | None], Columns] = {}
    for pair, place in weights.items():
        total = -(found.buckets[3].sum(0) if pair is None else found.inside[place - 1, -1])
        for index, base in _bases(view, plan):
            if is_constant(view, base):
                gradients[index, pair] = total_by_sign(view, base, torch.from_numpy(total))
        for index, sums in zip(uneven, found.signed, strict=True):
            gradients[index, pair] = dict(zip(_SIGNS, torch.from_numpy(sums[place]), strict=True))
    return Bulk(by_p["tokens"].sum(0), of_pairs, gradients), by_bucket(view, by_p)


def _bases(view: TokenView, plan: Plan) -> list[tuple[int, Loss]]:
    return [(i, base) for i, base in enumerate(plan.bases) if not base.couples_tokens and can_differentiate(view, base)]
