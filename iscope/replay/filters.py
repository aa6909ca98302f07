"""Filters: the keep-decisions of a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.recipes.model import Filter, LogClamp, Pair, Quantity, Reduction, Signs, bound_value
from iscope.replay import own
from iscope.replay.cuts import BatchCuts, Cuts, above
from iscope.replay.view import TokenView
from iscope.replay.weights import clamp_log, tested_ratio


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
    if rule.mean_high is not None:
        high = high | _over_mean(view, value, rule)
    out = low | high
    if not rule.nan_kept:
        out = out | value.isnan()
    if per_token and alive is not None:
        low, high, out = low & alive, high & alive, out & alive
    if per_token and rule.acts_on == "rollout":
        low, high, out = (view.segments.count(flags) > 0 for flags in (low, high, out))
        per_token = False
    if rule.pushed_only:
        pushed = view.log_ratio(rule.pair).double() * view.token_advantage > 0
        low, high, out = (view.segments.expand(flags) & pushed for flags in (low, high, out))
        per_token = True
    return Rejection(rule.name, low, high, out, per_token)


def _over_mean(view: TokenView, value: Tensor, rule: Filter) -> Tensor:
    """What lies above the cuts of the batches; a view without cuts is taken to be a batch of its own."""
    bound, cuts = bound_value(rule.mean_high), view.cuts.get(rule)
    assert bound is not None
    if not isinstance(cuts, Cuts):
        collected = BatchCuts(bound)
        collected.add(value.double(), view.segments, view.segments.lengths.new_zeros(view.segments.rows))
        cuts = collected.cuts().to(view.device)
    return above(value.double(), view.segments, cuts)


def statistic(view: TokenView, rule: Filter, alive: Tensor | None = None) -> Tensor:
    """The number that a filter tests: [P] for a token filter, else [N], in the precision of the decisions."""
    if rule.function is not None:
        per_token = rule.reduction is Reduction.TOKEN
        found = own.statistic(view if per_token else view.rollouts, rule.function, per_token=per_token)
        return found.to(view.trainer.dtype)
    if rule.reduction is Reduction.TOKEN:
        value = quantity(view, rule.quantity, rule.pair, rule.clamp)
    else:
        value = _rollout_statistic(view.rollouts, rule, alive)
    if rule.space == "ratio":
        shared = _shared_ratio(view, rule, alive)
        value = tested_ratio(view, value, rule.clamp) if shared is None else shared
        if rule.overflow == "zero":
            value = value.to(view.trainer.dtype)
            value = value.masked_fill(~value.isfinite(), 0.0)
    return value.to(view.trainer.dtype)


def _shared_ratio(view: TokenView, rule: Filter, alive: Tensor | None) -> Tensor | None:
    """The ratio that a filter tests, [P] or [N], where other rules of its pair test the very same."""
    if rule.quantity is not Quantity.LOG_RATIO or rule.clamp is not None:
        return None
    if rule.reduction is Reduction.TOKEN:
        return view.ratio(rule.pair)
    if alive is not None or rule.reduction not in (Reduction.SUM, Reduction.MEAN):
        return None
    return view.rollouts.rollout_ratio(rule.pair, mean=rule.reduction is Reduction.MEAN)


def quantity(view: TokenView, what: Quantity, pair: Pair, clamp: LogClamp | None = None) -> Tensor:
    """A per-token quantity [P] of a pair, its log-ratio within limits, in the precision of the decisions."""
    limits = clamp if clamp is not None and clamp.of == "token" else None
    d = clamp_log(view.log_ratio(pair), limits)
    if what is Quantity.LOG_RATIO:
        return d
    if what is Quantity.K1:
        return -d
    if what is Quantity.K2:
        return d * d / 2
    if what is Quantity.K3:
        return (view.ratio(pair) if limits is None else d.exp()) - 1 - d
    if what is Quantity.K3_REVERSE:
        return (-d).exp() - 1 + d
    if what is Quantity.EXP_ABS:
        return d.abs().exp()
    if what is Quantity.ABS_EXCESS:
        return d.expm1().abs()
    return _of_probabilities(view, what, pair)


def _of_probabilities(view: TokenView, what: Quantity, pair: Pair) -> Tensor:
    p, q = view.numerator(pair).exp(), view.denominator(pair).exp()
    if what is Quantity.PROBABILITY_DIFFERENCE:
        return p - q
    if what is Quantity.ABS_PROBABILITY_DIFFERENCE:
        return (p - q).abs()
    if what is Quantity.SIGNED_BINARY_KL:
        return _binary_kl(q, p, 1e-8) * (p - q).sign()
    return _binary_kl(q, p) if what is Quantity.BINARY_KL else _binary_kl(p, q)


def _binary_kl(a: Tensor, b: Tensor, margin: float = 1e-6) -> Tensor:
    """KL between two Bernoulli variables, nats, probabilities kept a margin from 0 and 1."""
    a, b = a.clamp(margin, 1 - margin), b.clamp(margin, 1 - margin)
    return a * (a / b).log() + (1 - a) * ((1 - a) / (1 - b)).log()


def _rollout_statistic(view: TokenView, rule: Filter, alive: Tensor | None) -> Tensor:
    of_tokens = rule.clamp is not None and rule.clamp.of == "token"
    plain = rule.quantity is Quantity.LOG_RATIO and alive is None and not of_tokens
    if plain and rule.reduction in (Reduction.SUM, Reduction.MEAN):
        value = view.log_ratio_sum(rule.pair) if rule.reduction is Reduction.SUM else view.log_ratio_mean(rule.pair)
    else:
        token = quantity(view, rule.quantity, rule.pair, rule.clamp).double()
        value = _reduce(view, token, rule.reduction, alive)
    return value if of_tokens else clamp_log(value, rule.clamp)


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
        return torch.zeros_like(value, dtype=torch.bool)
    if rule.space == "log":
        bound = math.log(bound) if bound > 0 else -math.inf
    if below:
        flags = value < bound if rule.closed else value <= bound
    else:
        flags = value > bound if rule.closed else value >= bound
    signs = rule.low_signs if below else rule.high_signs
    return flags if signs is Signs.ANY else flags & with_sign(view, signs, per_token=rule.reduction is Reduction.TOKEN)


def with_sign(view: TokenView, signs: Signs, *, per_token: bool) -> Tensor:
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
        Signs.ZERO: advantage == 0,
    }[signs]
    return view.segments.expand(hit) if per_token and not view.advantage_per_token else hit
