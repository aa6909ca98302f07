"""Filters: the keep-decisions of a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.recipes.model import Filter, Pair, Quantity, Reduction, Signs, bound_value
from iscope.replay.view import TokenView


@dataclass(frozen=True)
class Rejection:
    """What one filter rejects.

    Attributes:
        name: the filter's name.
        low: bool, below the lower bound: [P] if ``per_token`` else [N].
        high: bool, above the upper bound.
        out: bool, rejected (low, high, or a NaN that is not kept).
        per_token: whether the decision is per token.
    """

    name: str
    low: Tensor
    high: Tensor
    out: Tensor
    per_token: bool


def reject(view: TokenView, rule: Filter, alive: Tensor | None = None) -> Rejection:
    """Decide which tokens or rollouts a filter rejects.

    Args:
        view: the tokens.
        rule: the filter, values only.
        alive: bool [P], what earlier filters left, for a filter that sees survivors; None for all tokens.
    """
    value = statistic(view, rule, alive)
    per_token = rule.reduction is Reduction.TOKEN
    low = _outside(view, value, rule, below=True)
    high = _outside(view, value, rule, below=False)
    out = low | high
    if not rule.nan_kept:
        out = out | value.isnan()
    if per_token and rule.acts_on == "rollout":
        low, high, out = (view.segments.count(flags) > 0 for flags in (low, high, out))
        per_token = False
    return Rejection(rule.name, low, high, out, per_token)


def statistic(view: TokenView, rule: Filter, alive: Tensor | None = None) -> Tensor:
    """The number that a filter tests: [P] for a token filter, else [N], in the precision of the decisions."""
    if rule.reduction is Reduction.TOKEN:
        value = quantity(view, rule.quantity, rule.pair)
    else:
        value = _rollout_statistic(view.rollouts, rule, alive)
    if rule.space == "ratio":
        shared = rule.reduction is Reduction.TOKEN and rule.quantity is Quantity.LOG_RATIO
        value = view.ratio(rule.pair) if shared else value.exp()
    return value.to(view.trainer.dtype)


def quantity(view: TokenView, what: Quantity, pair: Pair) -> Tensor:
    """A per-token quantity [P] of a pair, in the precision of the decisions."""
    d = view.log_ratio(pair)
    if what is Quantity.LOG_RATIO:
        return d
    if what is Quantity.K1:
        return -d
    if what is Quantity.K2:
        return d * d / 2
    if what is Quantity.K3:
        return view.ratio(pair) - 1 - d
    if what is Quantity.EXP_ABS:
        return d.abs().exp()
    p, q = view.numerator(pair).exp(), view.denominator(pair).exp()
    if what is Quantity.PROBABILITY_DIFFERENCE:
        return p - q
    if what is Quantity.ABS_PROBABILITY_DIFFERENCE:
        return (p - q).abs()
    return _binary_kl(q, p) if what is Quantity.BINARY_KL else _binary_kl(p, q)


def _binary_kl(a: Tensor, b: Tensor) -> Tensor:
    """KL between two Bernoulli variables, nats, probabilities kept 1e-6 from 0 and 1."""
    a, b = a.clamp(1e-6, 1 - 1e-6), b.clamp(1e-6, 1 - 1e-6)
    return a * (a / b).log() + (1 - a) * ((1 - a) / (1 - b)).log()


def _rollout_statistic(view: TokenView, rule: Filter, alive: Tensor | None) -> Tensor:
    if rule.quantity is Quantity.LOG_RATIO and alive is None and rule.reduction in (Reduction.SUM, Reduction.MEAN):
        total = view.log_ratio_sum(rule.pair)
        return total if rule.reduction is Reduction.SUM else total / view.segments.lengths.clamp(min=1)
    return _reduce(view, quantity(view, rule.quantity, rule.pair).double(), rule.reduction, alive)


def _reduce(view: TokenView, token: Tensor, reduction: Reduction, alive: Tensor | None) -> Tensor:
    segments = view.segments
    if reduction in (Reduction.MIN, Reduction.MAX):
        empty = float("-inf") if reduction is Reduction.MAX else float("inf")
        token = token if alive is None else token.masked_fill(~alive, empty)
        value = segments.max(token) if reduction is Reduction.MAX else segments.min(token)
        return value.masked_fill(value == empty, float("nan"))
    total = segments.sum(token if alive is None else token.masked_fill(~alive, 0.0))
    if reduction is Reduction.SUM:
        return total
    count = segments.lengths if alive is None else segments.count(alive)
    return total / count.clamp(min=1)


def _outside(view: TokenView, value: Tensor, rule: Filter, *, below: bool) -> Tensor:
    bound = bound_value(rule.low if below else rule.high)
    if bound is None:
        return torch.zeros(value.numel(), dtype=torch.bool)
    if rule.space == "log":
        bound = math.log(bound) if bound > 0 else -math.inf
    if below:
        flags = value < bound if rule.closed else value <= bound
    else:
        flags = value > bound if rule.closed else value >= bound
    signs = rule.low_signs if below else rule.high_signs
    return flags if signs is Signs.ANY else flags & _with_sign(view, signs, rule.reduction is Reduction.TOKEN)


def _with_sign(view: TokenView, signs: Signs, per_token: bool) -> Tensor:
    """Whether the advantage of each token or rollout has a sign; per token given, a rollout has that of their sum."""
    advantage = view.advantage
    assert advantage is not None, "a recipe that looks at the sign of the advantage needs advantages"
    if view.advantage_per_token and not per_token:
        whole = view.rollouts
        assert whole.advantage is not None
        advantage = whole.segments.sum(whole.advantage)
    hit = {
        Signs.POSITIVE: advantage > 0,
        Signs.NON_POSITIVE: advantage <= 0,
        Signs.NEGATIVE: advantage < 0,
        Signs.NON_NEGATIVE: advantage >= 0,
    }[signs]
    return view.segments.expand(hit) if per_token and not view.advantage_per_token else hit
