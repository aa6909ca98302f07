"""Weight rules and filters: how a weight and a keep-decision come from a ratio. Data only, no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal


class Pair(StrEnum):
    """Numerator and denominator policy of a log-ratio."""

    TRAINER_INFERENCE = "trainer/inference"
    CURRENT_INFERENCE = "current/inference"
    CURRENT_TRAINER = "current/trainer"
    CURRENT_REF = "current/ref"


class Level(StrEnum):
    """Over what a ratio is taken: d_t, S = sum d, or G = S / n; ``none`` is the weight 1."""

    NONE = "none"
    TOKEN = "token"
    SEQUENCE = "sequence"
    GEOMETRIC = "geometric"


class Quantity(StrEnum):
    """A per-token quantity that a filter can test. d is the log-ratio of the pair, p and q its probabilities."""

    LOG_RATIO = "log_ratio"  # d
    PROBABILITY_DIFFERENCE = "probability_difference"  # p - q
    ABS_PROBABILITY_DIFFERENCE = "abs_probability_difference"  # |p - q|
    K1 = "k1"  # -d
    K2 = "k2"  # d^2 / 2
    K3 = "k3"  # exp(d) - 1 - d
    K3_REVERSE = "k3_reverse"  # exp(-d) - 1 + d
    EXP_ABS = "exp_abs"  # exp|d|
    ABS_EXCESS = "abs_excess"  # |exp(d) - 1|
    BINARY_KL = "binary_kl"  # KL(Bernoulli(q) || Bernoulli(p))
    SIGNED_BINARY_KL = "signed_binary_kl"  # KL(Bernoulli(q) || Bernoulli(p)), below 0 where p < q
    BINARY_KL_REVERSE = "binary_kl_reverse"  # KL(Bernoulli(p) || Bernoulli(q))


class Reduction(StrEnum):
    """How a rollout's tokens become the number that is tested; ``token`` tests each token."""

    TOKEN = "token"
    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"


class Signs(StrEnum):
    """The advantages for which a bound is in force."""

    ANY = "any"
    POSITIVE = "A>0"
    NON_POSITIVE = "A<=0"
    NEGATIVE = "A<0"
    NON_NEGATIVE = "A>=0"
    ZERO = "A=0"


@dataclass(frozen=True)
class Ref:
    """Stands in a row for the value of an option.

    Attributes:
        option: its short name.
        scale: factor of a number.
        offset: added to a number, after the factor.
        otherwise: the option whose value is taken when this one is none, or what stands in for it.
        reciprocal: take 1 / value, before factor and offset.
        part: of a pair of bounds its ``low`` or ``high``, none of a number alone; or ``single``: the number alone, none
            of a pair.
    """

    option: str
    scale: float = 1.0
    offset: float = 0.0
    otherwise: str | Ref | None = None
    reciprocal: bool = False
    part: Literal["low", "high", "single"] | None = None


@dataclass(frozen=True)
class ByOption:
    """Stands in a row for the part that the value of an option names.

    Attributes:
        option: its short name.
        parts: by value of the option; a filter that is None is left out.
        otherwise: the part of every other value; None where the parts are all there are.
    """

    option: str
    parts: tuple[tuple[float | str | bool | None, Any], ...]
    otherwise: Any = None


def by_option(option: str, *parts: tuple[float | str | bool | None, Any], otherwise: Any = None) -> Any:
    """Return what stands in a row for one of these parts, typed as any of them."""
    return ByOption(option, parts, otherwise)


Number = float | Ref | None


def bound_value(number: Number) -> float | None:
    """Return the value of a bound that needs no option, or whose option has been filled in."""
    assert not isinstance(number, Ref), f"the option {number.option} was not filled in"
    return number


Argument = Ref | float | bool | str | None


@dataclass(frozen=True)
class Function:
    """A function of the view of tokens (``iscope.replay.view.TokenView``), for what data does not reach.

    Attributes:
        call: the function, or where it is: ``module:function``, or ``file.py:function``.
        arguments: what it is called with beside the view, by name.
        part: what it returns: the one thing asked for (``whole``), or a pair of which this is the ``weight`` or the
            ``keep``; what is no pair is a weight, and then everything is kept.
        needs: optional columns of the dump without which it cannot be called.
    """

    call: str | Callable[..., Any]
    arguments: tuple[tuple[str, Argument], ...] = ()
    part: Literal["whole", "weight", "keep"] = "whole"
    needs: tuple[Literal["advantage", "current_logprobs", "ref_logprobs"], ...] = ()

    @property
    def reference(self) -> str:
        """Where the function is, ``module:function``."""
        if isinstance(self.call, str):
            return self.call
        name = getattr(self.call, "__qualname__", type(self.call).__qualname__)
        return f"{getattr(self.call, '__module__', None)}:{name}"


@dataclass(frozen=True)
class LogClamp:
    """Limits on the log-ratio before it is exponentiated, of each token or of the reduced sum.

    Attributes:
        low: lower limit, nats; None is no limit.
        high: upper limit, nats; None is no limit.
        of: what is limited.
        float32: whether the framework takes the ratio through float32, whatever the precision of the batch: decisions
            are then made on what is left of it.
    """

    low: Number = None
    high: Number = None
    of: Literal["token", "sum"] = "token"
    float32: bool = False


@dataclass(frozen=True)
class WeightRule:
    """How the weight comes from the ratio: exp of the clamped log-ratio at a level, truncated to [low, high].

    Attributes:
        level: over what the ratio is taken.
        pair: which policies.
        clamp: limits on the log-ratio.
        low: lower truncation of the weight; None is no bound.
        high: upper truncation of the weight; None is no bound. One below 0 is every weight.
        overflow: what a weight that is not finite becomes: itself, 0 unless it is cut to the upper bound (``zero``), or
            0 before the bounds are applied (``zero_first``).
        applied: False where the framework only logs the weight and trains with 1.
        sees: the loss mask as it came, or what the filters that test single tokens left: a weight of the rollout is
            then of those, and of a weight per token only those count as cut.
        normalise: divide by the batch's mean weight where that exceeds 1e-8: of tokens at level ``token``, else of the
            rollouts that have loss tokens; 0 where a filter zeroes the weight, but whole where one drops it.
        count_epsilon: added to the number of tokens that a mean of the weights is divided by.
        counts_empty: whether the mean weight of rollouts counts those without loss tokens, at 0.
        logged: whether the framework logs statistics of the weight that the ledger then keeps.
        cut_logged: with ``logged``, whether it logs some of the weight cut to its upper bound and the reciprocal too.
        decided_by: at level ``geometric``, the rollout's sum or largest log-ratio, whose exp must lie outside the
            bounds too for the weight to be cut; None is the weight itself.
        prefix: at level ``token``, whether the ratio is multiplied with the smallest of the tokens before it.
        function: gives the weight, before truncation, in place of the ratio: one per token [P] at level ``token``, else
            one per rollout [N].
    """

    level: Level | Ref = Level.NONE
    pair: Pair = Pair.TRAINER_INFERENCE
    clamp: LogClamp | None = None
    low: Number = None
    high: Number = None
    overflow: Literal["keep", "zero", "zero_first"] = "keep"
    applied: bool = True
    sees: Literal["original", "survivors"] = "original"
    normalise: bool | Ref = False
    count_epsilon: float = 0.0
    counts_empty: bool = False
    logged: bool = False
    cut_logged: bool = False
    decided_by: Reduction | None = None
    prefix: bool = False
    function: Function | None = None

    @property
    def normalises(self) -> bool:
        """Whether there are weights to be divided by their mean over the batch."""
        return bool(self.normalise) and self.applied and self.level is not Level.NONE

    @property
    def sign(self) -> Literal[1, -1]:
        """The sign of every weight: a ratio is never below 0, so an upper bound that is cuts all of them to itself."""
        high = bound_value(self.high)
        return -1 if self.applied and self.level is not Level.NONE and high is not None and high < 0 else 1


@dataclass(frozen=True)
class Filter:
    """A keep-decision: reject where the statistic lies outside its bounds.

    Attributes:
        name: what the report calls it.
        quantity: the per-token quantity.
        reduction: how a rollout's tokens become one number.
        low: lower bound; None is no bound.
        high: upper bound; None is no bound.
        pair: which policies.
        space: compare exp(statistic) with the bounds (``ratio``), the statistic with their logs (``log``), or the
            statistic itself with them (``plain``).
        closed: True keeps a value equal to a bound.
        low_signs: advantages for which the lower bound is in force.
        high_signs: advantages for which the upper bound is in force.
        sees: the loss mask as it came, or what earlier filters left of it.
        acts_on: reject the token, or its whole rollout.
        drops: True shrinks mask and denominators with it; False only zeroes the weight.
        nan_kept: what happens to a statistic that is NaN.
        clamp: limits on the log-ratio before anything else, of each token or of the reduced sum or mean.
        spares_penalty: with ``drops``, whether a token that is dropped keeps its penalty term.
        masks_penalty: True takes a rejected token out of the loss mask of every term, its penalty too, while all
            denominators, means of weights included, count it.
        of_loss: True rejects from the loss alone: the weight that is logged and averaged keeps its value.
        logged: whether the framework logs the statistic, which the ledger then keeps.
        overflow: what a ratio that is not finite becomes before it is tested: itself, or 0.
        pushed_only: of a rollout that is to be rejected, reject only the tokens whose d has the sign of A.
        mean_high: reject the tokens of the batch with the largest statistics, as few as bring the mean of the others
            below it; None is no such bound.
        function: gives the statistic, in place of the quantity and as it is, whatever the space: one per token [P] with
            reduction ``token``, else one per rollout [N].
    """

    name: str
    quantity: Quantity = Quantity.LOG_RATIO
    reduction: Reduction = Reduction.TOKEN
    low: Number = None
    high: Number = None
    pair: Pair = Pair.TRAINER_INFERENCE
    space: Literal["ratio", "log", "plain"] = "ratio"
    closed: bool = True
    low_signs: Signs = Signs.ANY
    high_signs: Signs = Signs.ANY
    sees: Literal["original", "survivors"] = "original"
    acts_on: Literal["token", "rollout"] = "token"
    drops: bool = False
    nan_kept: bool = True
    clamp: LogClamp | None = None
    spares_penalty: bool = False
    masks_penalty: bool = False
    of_loss: bool = False
    logged: bool = False
    overflow: Literal["keep", "zero"] = "keep"
    pushed_only: bool = False
    mean_high: Number = None
    function: Function | None = None
