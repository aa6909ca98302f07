"""Weight rules: from a log-ratio to the importance weight that multiplies a token's loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from iscope.recipes.model import Level, LogClamp, Pair, Reduction, WeightRule, bound_value
from iscope.replay import own
from iscope.replay.prefix import smallest_before
from iscope.replay.segments import Segments
from iscope.replay.view import EXPONENT_LIMIT, TokenView


@dataclass(frozen=True)
class Weight:
    """A weight per token or per rollout, and where a bound made it.

    Attributes:
        log: float64, log of the weight, or of its size where it is below 0: [P] if ``per_token`` else [N].
        low: bool, raised to the lower bound.
        high: bool, cut to the upper bound.
        excess: float64 [P], weight - 1, of a weight per token; None for one weight per rollout.
        sign: that of all weights.
    """

    log: Tensor
    low: Tensor
    high: Tensor
    excess: Tensor | None = None
    sign: Literal[1, -1] = 1

    @property
    def per_token(self) -> bool:
        """Whether the weight differs within a rollout."""
        return self.excess is not None

    def of_tokens(self, segments: Segments) -> Tensor:
        """The weight of each token, float64 [P]."""
        log = self.log if self.per_token else segments.expand(self.log)
        return log.exp() if self.sign > 0 else -log.exp()

    def excess_of(self, log: Tensor) -> Tensor:
        """Weight - 1 of weights of this sign, float64, given the logs of their sizes."""
        return log.expm1() if self.sign > 0 else -log.exp() - 1.0


def weigh(view: TokenView, rule: WeightRule, alive: Tensor | None = None) -> Weight:
    """Compute the weights of a rule on a view.

    Source of the forms: TIS and MIS as TRL 1.16.0 (vllm_importance_sampling_mode), prime-rl and verl (rollout_is)
    write them: exp of a token's log-ratio, of its sum over the rollout, or of its mean, cut to [low, high].

    Args:
        view: the tokens.
        rule: the rule, values only.
        alive: bool [P], the tokens that the ratio of a rollout is taken over, and that count as cut; None for all.
    """
    if not rule.applied or rule.level == Level.NONE:
        untouched = torch.zeros(view.segments.rows, dtype=torch.bool, device=view.device)
        return Weight(untouched.double(), untouched, untouched)
    if rule.level == Level.TOKEN:
        weight = _token_weight(view, rule)
        return weight if alive is None else replace(weight, low=weight.low & alive, high=weight.high & alive)
    return _rollout_weight(view, rule, alive)


def _token_weight(view: TokenView, rule: WeightRule) -> Weight:
    clamp, low_bound, high_bound = rule.clamp, bound_value(rule.low), bound_value(rule.high)
    if rule.function is not None:
        log = clamp_log(own.log_weight(view, rule.function, per_token=True), clamp)
        ratio, excess = tested_ratio(view, log, clamp), log.expm1()
    elif rule.prefix:
        log = view.exact(rule.pair) + smallest_before(view, rule.pair)
        log = clamp_log(log.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT), clamp)
        ratio, excess = tested_ratio(view, log, clamp), log.expm1()
    else:
        ratio = view.ratio(rule.pair) if clamp is None else _token_ratio(view, rule)
        log = clamp_log(view.exact(rule.pair), clamp)
        excess = view.excess(rule.pair) if clamp is None else log.expm1()
    low, high = _beyond(_tested(ratio, rule), low_bound, high_bound)
    replaced = [(low, low_bound), (high, high_bound)]
    if rule.overflow == "zero_first":
        replaced.insert(0, (~torch.isfinite(ratio), 0.0))
    if rule.overflow == "zero":
        replaced.append((~torch.isfinite(ratio) & ~high, 0.0))
    if any(bound is not None for _, bound in replaced):
        log, excess = log.clone(), excess.clone()
        for flags, bound in replaced:
            if bound is not None:
                where = flags.nonzero().squeeze(1)
                log[where], excess[where] = _log(bound), bound - 1.0
    return Weight(log, low, high, excess, rule.sign)


def _token_ratio(view: TokenView, rule: WeightRule) -> Tensor:
    return tested_ratio(view, clamp_log(view.log_ratio(rule.pair), rule.clamp), rule.clamp)


def tested_token_ratio(view: TokenView, rule: WeightRule) -> Tensor:
    """The ratio of each token [P] that a rule without function or prefix compares with its bounds."""
    return _tested(view.ratio(rule.pair) if rule.clamp is None else _token_ratio(view, rule), rule)


def _rollout_weight(view: TokenView, rule: WeightRule, alive: Tensor | None) -> Weight:
    if rule.function is not None:
        log = clamp_log(own.log_weight(view.rollouts, rule.function, per_token=False), rule.clamp)
    else:
        log = rollout_log_ratio(view, rule.pair, rule.clamp, mean=rule.level == Level.GEOMETRIC, alive=alive)
    if rule.function is None and rule.clamp is None and alive is None:
        ratio = view.rollouts.rollout_ratio(rule.pair, mean=rule.level == Level.GEOMETRIC)
    else:
        ratio = tested_ratio(view, log, rule.clamp)
    low_bound, high_bound = bound_value(rule.low), bound_value(rule.high)
    low, high = _beyond(_tested(ratio, rule), low_bound, high_bound)
    if rule.decided_by is not None:
        outside = torch.logical_or(*_beyond(_deciding_ratio(view, rule, alive), low_bound, high_bound))
        low, high = low & outside, high & outside
    if rule.overflow == "zero_first":
        log = log.masked_fill(~torch.isfinite(ratio), -math.inf)
    for flags, bound in ((low, low_bound), (high, high_bound)):
        if bound is not None:
            log = log.masked_fill(flags, _log(bound))
    if rule.overflow == "zero":
        log = log.masked_fill(~torch.isfinite(ratio) & ~high, -math.inf)
    return Weight(log, low, high, sign=rule.sign)


def _deciding_ratio(view: TokenView, rule: WeightRule, alive: Tensor | None) -> Tensor:
    """Exp of the sum or largest log-ratio of each rollout [N], in the precision of the decisions."""
    if rule.decided_by is not Reduction.MAX:
        log = rollout_log_ratio(view, rule.pair, rule.clamp, mean=False, alive=alive)
    else:
        whole = view.rollouts
        d = whole.log_ratio(rule.pair).double()
        log = whole.segments.max(d if alive is None else d.masked_fill(~alive, -math.inf), empty=0.0)
    return tested_ratio(view, log, rule.clamp)


def rollout_log_ratio(
    view: TokenView, pair: Pair, clamp: LogClamp | None = None, *, mean: bool, alive: Tensor | None = None
) -> Tensor:
    """S or, with ``mean``, G = S / n of each rollout [N], over the tokens alive, float64, nats; 0 without tokens."""
    view = view.rollouts
    of_tokens = clamp is not None and clamp.of == "token"
    if not of_tokens and alive is None:
        return clamp_log(view.log_ratio_mean(pair) if mean else view.log_ratio_sum(pair), clamp)
    log = clamp_log(view.log_ratio(pair).double(), clamp if of_tokens else None)
    total = view.segments.sum(log if alive is None else log.masked_fill(~alive, 0.0))
    count = view.segments.lengths if alive is None else view.segments.count(alive)
    reduced = total / count.clamp(min=1) if mean else total
    return reduced if of_tokens else clamp_log(reduced, clamp)


def clamp_log(log: Tensor, clamp: LogClamp | None) -> Tensor:
    """The log-ratios within the limits; all of them where there are none."""
    return log if clamp is None else log.clamp(bound_value(clamp.low), bound_value(clamp.high))


def tested_ratio(view: TokenView, log: Tensor, clamp: LogClamp | None) -> Tensor:
    """The ratio that is compared with bounds, of log-ratios within the limits, in the precision of the decisions."""
    return (log.float() if clamp is not None and clamp.float32 else log).exp().to(view.trainer.dtype)


def _log(bound: float) -> float:
    """Log of the size of a bound."""
    return math.log(abs(bound)) if bound else -math.inf


def _tested(ratio: Tensor, rule: WeightRule) -> Tensor:
    """The ratio as it is compared with the bounds."""
    return ratio.masked_fill(~torch.isfinite(ratio), 0.0) if rule.overflow == "zero_first" else ratio


def _beyond(ratio: Tensor, low: float | None, high: float | None) -> tuple[Tensor, Tensor]:
    none = torch.zeros_like(ratio, dtype=torch.bool)
    return none if low is None else ratio < low, none if high is None else ratio > high
