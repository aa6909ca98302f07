"""What a recipe is: a weight rule, a list of filters, a loss type and an aggregation. Data only, no torch.

A framework is a table of ``Recipe`` rows. A row leaves its bounds open by naming the option that fills them
(``Ref("clip_max")``); ``iscope.recipes.grammar`` binds options and returns a ``BoundRecipe``, which has values only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    EXP_ABS = "exp_abs"  # exp|d|
    BINARY_KL = "binary_kl"  # KL(Bernoulli(q) || Bernoulli(p))
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


@dataclass(frozen=True)
class Ref:
    """Stands in a row for the value of an option.

    Attributes:
        option: its short name.
        scale: factor of a number.
        offset: added to a number, after the factor.
        otherwise: the option whose value is taken when this one is none.
    """

    option: str
    scale: float = 1.0
    offset: float = 0.0
    otherwise: str | None = None


Number = float | Ref | None


def bound_value(number: Number) -> float | None:
    """Return the value of a bound that needs no option, or whose option has been filled in."""
    assert not isinstance(number, Ref), f"the option {number.option} was not filled in"
    return number


@dataclass(frozen=True)
class LogClamp:
    """Limits on the log-ratio before it is exponentiated, of each token or of the reduced sum."""

    low: Number = None
    high: Number = None
    of: Literal["token", "sum"] = "token"


@dataclass(frozen=True)
class WeightRule:
    """How the weight comes from the ratio: exp of the clamped log-ratio at a level, truncated to [low, high].

    Attributes:
        level: over what the ratio is taken.
        pair: which policies.
        clamp: limits on the log-ratio.
        low: lower truncation of the weight; None is no bound.
        high: upper truncation of the weight; None is no bound.
        overflow: what a weight that is not finite becomes: itself, or 0.
        applied: False where the framework only logs the weight and trains with 1.
    """

    level: Level | Ref = Level.NONE
    pair: Pair = Pair.TRAINER_INFERENCE
    clamp: LogClamp | None = None
    low: Number = None
    high: Number = None
    overflow: Literal["keep", "zero"] = "keep"
    applied: bool = True


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


class Aggregation(StrEnum):
    """How the per-token losses of a batch become one number (verl's loss_agg_mode names)."""

    TOKEN_MEAN = "token-mean"  # sum / loss tokens of the batch
    SEQ_MEAN_TOKEN_SUM = "seq-mean-token-sum"  # mean over rollouts of their sums
    SEQ_MEAN_TOKEN_MEAN = "seq-mean-token-mean"  # mean over rollouts of their means
    SEQ_MEAN_TOKEN_SUM_NORM = "seq-mean-token-sum-norm"  # mean over rollouts of their sums / a constant length


@dataclass(frozen=True)
class BySign:
    """A number that depends on the sign of A.

    Attributes:
        positive: for A > 0.
        negative: for A < 0.
    """

    positive: Number
    negative: Number


@dataclass(frozen=True)
class Penalty:
    """A term beside the policy term, coefficient * f(u) on every loss token, u the log-ratio of a pair in nats.

    Attributes:
        kind: the estimator: ``squared`` is f(u) = u^2, ``k3`` is exp(-u) - 1 + u.
        pair: the policies of u; the gradient runs through the numerator.
        coefficient: factor of the term; 0 is no term.
        ratio_factor: whether the term is multiplied by the loss's ratio r too, with the gradient through both.
    """

    kind: Literal["squared", "k3"]
    pair: Pair
    coefficient: Number
    ratio_factor: bool | Ref = False


@dataclass(frozen=True)
class Loss:
    """The surrogate on top of the correction. w is the applied weight, A the advantage, r the ratio current/trainer.

    Attributes:
        type: ``surrogate``: -A w, the gradient runs through w. ``score``: -A w log pi, w is constant.
            ``clipped_surrogate``: -min(A min(r, delta), A clamp(r, low, high)) w. ``clipped_weight``: -min(A w,
            A clamp(w, low, high)), the gradient runs through w. ``cispo``: -A clamp(r, low, high) w log pi, all but
            log pi constant. ``sapo``: -A (4 / t) sigmoid(t (r - 1)) w, t the temperature. ``vespo``: -A phi log pi,
            phi = exp(rate + power log v - rate v) constant, v the product of r w over the rollout.
        low: lower clipping bound of the clipped types and ``cispo``.
        high: upper clipping bound of the clipped types and ``cispo``.
        delta: upper bound of r where it is not clipped otherwise (two-sided clipping); None is no bound.
        level: over what r is taken: the ``token``, or the ``sequence``: exp of the rollout's mean log-ratio (GSPO),
            whose gradient reaches all of its tokens.
        temperature: of ``sapo``.
        power: of ``vespo``.
        rate: of ``vespo``.
        signal: what A is: the advantage, or the reference logprob minus the current one.
        advantage_scale: factor of A.
        penalty: a further term, on kept and rejected tokens alike.
        aggregation: how the batch is summed up.
        norm_length: tokens, the constant length of ``seq-mean-token-sum-norm``.
    """

    type: Literal["surrogate", "score", "clipped_surrogate", "clipped_weight", "cispo", "sapo", "vespo"] = "score"
    low: Number = None
    high: Number = None
    delta: Number = None
    level: Literal["token", "sequence"] | Ref = "token"
    temperature: BySign | None = None
    power: BySign | None = None
    rate: BySign | None = None
    signal: Literal["advantage", "ref"] = "advantage"
    advantage_scale: Number = 1.0
    penalty: Penalty | None = None
    aggregation: Aggregation = Aggregation.TOKEN_MEAN
    norm_length: Number = None

    @property
    def uses_ratio(self) -> bool:
        """Whether r, current over trainer, is part of the policy term, so that weight 1 does not leave just -A."""
        return self.type in ("clipped_surrogate", "cispo", "sapo", "vespo")

    @property
    def linear_in_weight(self) -> bool:
        """Whether one weight for a whole rollout multiplies its policy term and gradient by just that weight."""
        return self.type not in ("clipped_weight", "vespo")

    @property
    def couples_tokens(self) -> bool:
        """Whether a token's gradient depends on the other tokens of its rollout, beyond their common weight."""
        return self.type == "vespo" or (self.level == "sequence" and self.type in ("clipped_surrogate", "sapo"))


@dataclass(frozen=True)
class Option:
    """One option of a recipe under the framework's own name.

    Attributes:
        name: the framework's full name, canonical.
        short: the short form that reports use.
        kind: how its value is parsed.
        default: the framework's default.
        doc: one line.
        aliases: other accepted names (deprecated, proposed).
        choices: the accepted words of a ``choice``.
        nullable: whether ``none`` (no bound) is accepted.
    """

    name: str
    short: str
    kind: Literal["float", "int", "bool", "choice"]
    default: float | int | bool | str | None
    doc: str
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    nullable: bool = False


@dataclass(frozen=True)
class Constraint:
    """A condition on options that the framework itself enforces, or without which a formula has no value.

    Attributes:
        kind: ``less``: the first stays below the second where both are set; ``at_most``: below or equal; ``any``: at
            least one is set; ``positive``: each is above 0 where it is set; ``not``: none is ``value``.
        options: short names.
        value: the value that ``not`` refuses.
        remedy: what to do instead, if there is more to say than the condition.
    """

    kind: Literal["less", "at_most", "any", "positive", "not"]
    options: tuple[str, ...]
    value: str | None = None
    remedy: str = ""


@dataclass(frozen=True)
class Recipe:
    """One row of a framework's table.

    Attributes:
        name: ``framework/mode``, or a bare name for a generic recipe.
        summary: one line.
        formula: the rule in plain text, options by their short names.
        source: framework, version and option, or the paper.
        options: its own options, in positional order.
        weight: the weight rule.
        filters: in the order they are applied.
        loss: the loss on top; None takes the one that the framework's ``loss_type`` option names.
        weight_if_set: an option, and the weight rule in force instead when it is not none.
        constraints: conditions between options.
        notes: traps worth knowing.
    """

    name: str
    summary: str
    formula: str
    source: str
    options: tuple[Option, ...] = ()
    weight: WeightRule = WeightRule()
    filters: tuple[Filter, ...] = ()
    loss: Loss | None = None
    weight_if_set: tuple[str, WeightRule] | None = None
    constraints: tuple[Constraint, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Framework:
    """A framework's table: its recipes and the loss options that every one of them takes.

    Attributes:
        name: the prefix of its recipes; empty for the generic ones.
        title: how the framework writes its own name.
        version: the version its rows were read from.
        recipes: the rows.
        loss_options: options of the loss, accepted by every recipe.
        losses: the losses its ``loss_type`` option chooses from; a single one needs no option.
        constraints: conditions on the loss options.
    """

    name: str
    title: str
    version: str
    recipes: tuple[Recipe, ...]
    loss_options: tuple[Option, ...] = ()
    losses: tuple[tuple[str, Loss], ...] = (("", Loss()),)
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True)
class BoundRecipe:
    """A recipe with every option filled in: the thing that is replayed.

    Attributes:
        name: the row's name.
        framework: the framework's name.
        spec: the canonical full form, which parses back to this recipe.
        options: every option in force under its short name.
        weight: the weight rule, values only.
        filters: the filters, values only; a filter without a bound is left out.
        loss: the loss, values only.
        row: the row it came from.
        named: True where a user asked for it by name.
        unused: loss options, by short name, that are away from their default but that the chosen loss does not read.
    """

    name: str
    framework: str
    spec: str
    options: dict[str, Any] = field(hash=False)
    weight: WeightRule
    filters: tuple[Filter, ...]
    loss: Loss
    row: Recipe
    named: bool = False
    unused: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Optional columns of the dump without which it cannot be replayed."""
        signed = any({rule.low_signs, rule.high_signs} != {Signs.ANY} for rule in self.filters)
        penalty = self.loss.penalty
        pairs = {rule.pair for rule in self.filters}
        if penalty is not None and bound_value(penalty.coefficient):
            pairs.add(penalty.pair)
        ref = self.loss.signal == "ref" or Pair.CURRENT_REF in pairs
        return ("advantage",) * signed + ("ref_logprobs",) * ref
