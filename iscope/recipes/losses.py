"""Losses: the surrogate on top of a correction, its penalty and its aggregation. Data only, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from iscope.recipes.rules import Filter, Function, LogClamp, Number, Pair, Ref, bound_value


class Aggregation(StrEnum):
    """How the per-token losses of a batch become one number (verl's loss_agg_mode names)."""

    TOKEN_MEAN = "token-mean"  # sum / loss tokens of the batch
    TOKEN_SUM = "token-sum"  # the sum itself
    SEQ_MEAN_TOKEN_SUM = "seq-mean-token-sum"  # mean over rollouts of their sums
    SEQ_MEAN_TOKEN_MEAN = "seq-mean-token-mean"  # mean over rollouts of their means
    SEQ_MEAN_TOKEN_SUM_NORM = "seq-mean-token-sum-norm"  # mean over rollouts of their sums / a constant length
    GROUP_MEAN_TOKEN_MEAN = "group-mean-token-mean"  # mean over groups (the rollouts of one prompt) of their means
    GROUP_MEAN_TOKEN_SUM = "group-mean-token-sum"  # mean over groups of their sums

    @property
    def by_group(self) -> bool:
        """Whether it has to know which rollouts are of one group."""
        return self in (Aggregation.GROUP_MEAN_TOKEN_MEAN, Aggregation.GROUP_MEAN_TOKEN_SUM)


@dataclass(frozen=True)
class BySign:
    """A number that depends on the sign of A.

    Attributes:
        positive: for A > 0.
        negative: for A < 0.
        float32: whether the framework rounds it to float32, whatever the precision of the batch.
    """

    positive: Number
    negative: Number
    float32: bool = False


@dataclass(frozen=True)
class Penalty:
    """A term beside the policy term, coefficient * f(u) on every loss token, u the log-ratio of a pair in nats.

    Attributes:
        kind: the estimator: ``squared`` is f(u) = u^2, ``k1`` is u, ``abs`` is abs(u), ``k2`` is u^2 / 2, ``k3`` is
            exp(-u) - 1 + u.
        pair: the policies of u; the gradient runs through the numerator.
        coefficient: factor of the term; 0 is no term.
        ratio_factor: whether the term is multiplied by the loss's ratio r too, with the gradient through both.
        weighted: whether the applied weight multiplies it.
        weight: a further factor with the gradient through both: exp of this pair's log-ratio (0 where it overflows),
            or ``one``, the ratio of the numerator to itself: 1, but not its derivative.
        input_clamp: largest abs(u), beyond which f has no gradient; None is no bound.
        output_clamp: largest abs(f), beyond which it has no gradient; None is no bound.
        of_sum: whether u is the sum over the rollout's tokens, and each token has its share of f(u), one over their
            number; without factors and clamps.
        k2_slope: whether its gradient is that of k2, without clamps, whatever the estimator (straight through).
        aggregation: how the term is summed up; None is like the rest of the loss.
    """

    kind: Literal["squared", "k1", "abs", "k2", "k3"]
    pair: Pair
    coefficient: Number
    ratio_factor: bool | Ref = False
    weighted: bool = False
    weight: Pair | Literal["one"] | None = None
    input_clamp: Number = None
    output_clamp: Number = None
    of_sum: bool | Ref = False
    k2_slope: bool = False
    aggregation: Aggregation | None = None


@dataclass(frozen=True)
class Influence:
    """A constant factor of each token's policy term: exp of the discounted sum of its own and all later log r (FIPO).

    Attributes:
        half_life: positions after which a log r counts half; those outside the loss mask count as positions too.
        reach: how far from 1 the factor may lie; None is no bound.
        above_one: whether it may not lie below 1 either.
        threshold: where A < 0 and r exceeds it, the factor is at most 1 and at least 0.8; None is no such rule.
    """

    half_life: Number
    reach: Number = None
    above_one: bool | Ref = False
    threshold: Number = None


@dataclass(frozen=True)
class PositiveNLL:
    """A term beside the policy term: coefficient times the mean of -log pi over the tokens of good rollouts.

    Good are those whose reward is above 0; the mean is over their loss tokens in the batch, and no weight touches it.

    Attributes:
        coefficient: factor of the term; 0 is no term.
    """

    coefficient: Number


@dataclass(frozen=True)
class Denominator:
    """What a loss is divided by, as far as its aggregation leaves that open.

    Attributes:
        norm_length: tokens, the constant length of ``seq-mean-token-sum-norm``.
        batch_tokens: tokens that ``token-mean`` divides by; None: the loss tokens of the batch.
        batch_size: rollouts that a mean over rollouts divides by; None: those of the batch, empty ones included.
        counts: the rollouts in a mean over rollouts: all of the batch, those with loss tokens (``filled``), or all but
            those that a filter drops (``undropped``).
        counts_dropped: whether ``token-mean`` divides by the loss tokens that filters dropped as well.
        fills_empty: whether ``token-mean`` counts a rollout without loss tokens as one token.
        epsilon: added to the tokens or rollouts of the batch that are divided by, and to the tokens of a rollout in r
            at level ``sequence``.
        count_epsilon: added to the tokens of a rollout where its mean is taken.
    """

    norm_length: Number = None
    batch_tokens: Number = None
    batch_size: Number = None
    counts: Literal["all", "filled", "undropped"] = "all"
    counts_dropped: bool | Ref = False
    fills_empty: bool = False
    epsilon: float = 0.0
    count_epsilon: float = 0.0


@dataclass(frozen=True)
class LossLogs:
    """What a framework logs of its loss, which the ledger then keeps.

    Attributes:
        ratio: r within its bounds.
        lag: log r, over the tokens that filters leave in the loss mask, and what the loss does at its limits.
        left: whether the rest is over the tokens that filters leave in the loss mask.
        tracked: sum, smallest and largest of what the loss does to a token.
    """

    ratio: bool = False
    lag: bool = False
    left: bool = False
    tracked: bool = False


_BY_THE_BATCH = Denominator()
_NOTHING = LossLogs()


@dataclass(frozen=True)
class Loss:
    """The surrogate on top of the correction. w is the applied weight, A the advantage, r the ratio current/trainer.

    Attributes:
        type: ``surrogate``: -A w, the gradient runs through w. ``score``: -A w log pi, w is constant.
            ``clipped_surrogate``: -min(A min(r, delta), A clamp(r, low, high)) w. ``clipped_weight``: -min(A w,
            A clamp(w, low, high)), the gradient runs through w. ``cispo``: -A clamp(r, low, high) w log pi, all but
            log pi constant. ``sapo``: -A (4 / t) sigmoid(t (r - 1)) w, t the temperature. ``vespo``: -A phi log pi,
            phi = exp(rate + power log v - rate v) constant, v the product of r w over the rollout. ``dppo``: -A
            min(r, delta) w log pi, all but log pi constant, 0 where the divergence exceeds its bound. ``geo_mean``: -A
            exp(mean log(w + 1e-10) + mean x) of a rollout, A its mean, x log r cut to [-low, high] on the side that A
            pushes to. ``group_contrast``: of a group with both signs of A log(1 + sum over A <= 0 of exp(s / t)) +
            log(1 + sum over A > 0 of exp(-s / t)), s the mean log r of a rollout and t the temperature, whatever w.
            ``function``: what the function gives.
        low: lower clipping bound of the clipped types and ``cispo``; of ``dppo``, the divergence allowed where A <= 0.
        high: upper clipping bound of the clipped types and ``cispo``; of ``dppo``, that where A > 0.
        delta: upper bound of r where it is not clipped otherwise (two-sided clipping); None is no bound.
        dual: of ``clipped_surrogate`` and ``clipped_weight``, with A < 0 the loss is at most -A dual (dual clip).
        clamp: limits on log r, of its mean at level ``sequence``; beyond them it is constant.
        divergence: of ``dppo``: ``tv`` is the move of the token's probability, p - p_trainer against high, and below
            -low; ``kl`` is the binary KL(p_trainer || p), free where the move is against the push of A.
        level: over what r is taken: the ``token``, or the ``sequence``: exp of the rollout's mean log-ratio (GSPO),
            whose gradient reaches all of its tokens. ``clipped_weight`` at ``sequence`` spreads its gradient alike.
        straight_through: at level ``sequence``, a token's loss has a gradient through its own log-ratio only, with
            slope 1 (GSPO's token variant).
        pair: the policies of r.
        gate: the loss's own condition: a token that it rejects has no policy term and no gradient, yet counts as kept.
        influence: a factor of the policy term; a log r of a token whose r exceeds ``delta`` adds nothing to it.
        temperature: of ``sapo``, and of ``group_contrast``, where it is one for all.
        power: of ``vespo``.
        rate: of ``vespo``.
        signal: what A is: the advantage, the reference logprob minus the current one, or 1 for every token.
        advantage_scale: factor of A.
        penalty: a further term, on kept and rejected tokens alike.
        positive_nll: a further term, on the tokens of rollouts whose reward is above 0.
        aggregation: how the batch is summed up.
        denominator: what it is then divided by.
        logs: what the framework logs of it.
        sees: at level ``sequence``, whether r and A are of the tokens that the filters leave, or of all of them.
        pools_advantage: at level ``sequence``, A of every token is the mean over its rollout's tokens.
        function: of ``function``: called with the view, A [P] and the applied weight w [P] (0 where rejected), it
            returns the loss of each token and its derivative by the token's current logprob, [P] each, w held
            constant; what that derivative has of the rollout's other tokens included.
        weighted: whether the recipe weights tokens by a ratio, not just by 0 and 1; filled in when it is bound.
    """

    type: Literal[
        "surrogate",
        "score",
        "clipped_surrogate",
        "clipped_weight",
        "cispo",
        "sapo",
        "vespo",
        "dppo",
        "geo_mean",
        "group_contrast",
        "function",
    ] = "score"
    low: Number = None
    high: Number = None
    delta: Number = None
    dual: Number = None
    clamp: LogClamp | None = None
    divergence: Literal["tv", "kl"] | None = None
    level: Literal["token", "sequence"] | Ref = "token"
    straight_through: bool = False
    pair: Pair = Pair.CURRENT_TRAINER
    gate: Filter | None = None
    influence: Influence | None = None
    temperature: BySign | None = None
    power: BySign | None = None
    rate: BySign | None = None
    signal: Literal["advantage", "ref", "one"] = "advantage"
    advantage_scale: Number = 1.0
    penalty: Penalty | None = None
    positive_nll: PositiveNLL | None = None
    aggregation: Aggregation = Aggregation.TOKEN_MEAN
    denominator: Denominator = _BY_THE_BATCH
    logs: LossLogs = _NOTHING
    sees: Literal["original", "survivors"] = "original"
    pools_advantage: bool = False
    function: Function | None = None
    weighted: bool = False

    @property
    def uses_ratio(self) -> bool:
        """Whether r, current over trainer, is part of the policy term, so that weight 1 does not leave just -A."""
        return self.type not in ("surrogate", "score", "clipped_weight")

    @property
    def gradient_through(self) -> Literal["weight", "ratio", "score"]:
        """What the gradient runs through: the applied weight, the ratio r, or log pi with all else constant."""
        if self.type in ("surrogate", "clipped_weight"):
            return "weight"
        through_score = self.type in ("score", "cispo", "vespo", "dppo")
        return "score" if through_score else "ratio"

    @property
    def linear_in_weight(self) -> bool:
        """Whether one weight for a whole rollout multiplies its policy term and gradient by just that weight."""
        return self.type not in ("clipped_weight", "vespo", "geo_mean", "group_contrast", "function")

    @property
    def logs_weight(self) -> bool:
        """Whether it takes the logarithm of the weight."""
        return self.type in ("vespo", "geo_mean")

    @property
    def floors_weight(self) -> bool:
        """Whether a token of weight 0 still has a part in the loss of its rollout."""
        return self.type == "geo_mean"

    @property
    def couples_tokens(self) -> bool:
        """Whether a token's gradient depends on the other tokens of its rollout, beyond their common weight."""
        if self.type in ("vespo", "geo_mean", "group_contrast", "function") or self.influence is not None:
            return True
        return self.level == "sequence" and self.type in ("clipped_surrogate", "clipped_weight", "sapo")

    @property
    def couples_rollouts(self) -> bool:
        """Whether a rollout's gradient depends on the other rollouts of its group."""
        return self.type == "group_contrast"

    @property
    def needs_reward(self) -> bool:
        """Whether the loss has to know which rollouts have a reward above 0."""
        return self.positive_nll is not None and bool(bound_value(self.positive_nll.coefficient))

    @property
    def needs_groups(self) -> bool:
        """Whether the loss has to know which rollouts are of one group."""
        return self.couples_rollouts or (isinstance(self.aggregation, Aggregation) and self.aggregation.by_group)
