"""NeMo-RL's corrections of the generation mismatch, ``ClippedPGLossFn`` of NeMo-RL (git 7ea279ab)."""

from __future__ import annotations

from iscope.recipes.model import Constraint, Filter, Framework, Level, Option, Pair, Quantity, Recipe, Reduction, Ref
from iscope.recipes.nemo_rl_losses import CONSTRAINTS, LOSS_OPTIONS, LOSSES, PAIR, SEQUENCE_LEVEL
from iscope.recipes.rules import WeightRule, by_option

SEQ_LOGPROB_ERROR = "seq_logprob_error"

_LOW, _HIGH = Ref("ratio_min"), Ref("ratio")
# The weight is a token's ratio, or the product of the rollout's with sequence_level_importance_ratios.
_LEVEL = by_option(SEQUENCE_LEVEL, (False, Level.TOKEN), (True, Level.SEQUENCE))
_OVER = by_option(SEQUENCE_LEVEL, (False, Reduction.TOKEN), (True, Reduction.SUM))
_ACTS_ON = by_option(SEQUENCE_LEVEL, (False, "token"), (True, "rollout"))

# Taken before advantages are computed, on the logprobs recomputed at generation weights, whatever the correction.
_ERROR = Filter(
    SEQ_LOGPROB_ERROR,
    Quantity.EXP_ABS,
    Reduction.MEAN,
    high=Ref("seq_logprob_error_threshold"),
    space="plain",
    acts_on="rollout",
    drops=True,
)

_RATIO = (
    "rho_t = exp(trainer_t - inference_t), with sequence_level_importance_ratios the product of the rollout's, "
    "over its loss tokens; 0 where it is not finite"
)

_FROZEN = "The weight is constant: the loss's own ratio, current over trainer, carries the gradient."
_OVERFLOW = "A ratio that overflows becomes 0, not the upper bound, and does not count as out of bounds."
_DENOMINATOR = "What is rejected stays in the loss's denominator."
_DROPS = (
    "seq_logprob_error_threshold drops rollouts before advantages are computed: the advantages of a dump that was made "
    "without it do not know of that."
)
_GSPO = (
    "With sequence_level_importance_ratios the weight is the raw product, while the ratio of the loss is its geometric "
    "mean."
)
_INFLATED = (
    "With sequence_level_importance_ratios, NeMo-RL's sampling_importance_ratio is the sum of the weights of a "
    "micro-batch's rollouts, not their mean; here it is that of the whole batch."
)


def _source(setting: str) -> str:
    return f"NeMo-RL git 7ea279ab, loss_fn: {setting}"


def _bounds(low: float | None, high: float, doc: str) -> tuple[Option, Option]:
    return (
        Option(
            name="truncated_importance_sampling_ratio_min",
            short="ratio_min",
            kind="float",
            default=low,
            doc=f"Lower bound of {doc}" + ("; none is 0." if low is None else ", inclusive."),
            nullable=low is None,
        ),
        Option(
            name="truncated_importance_sampling_ratio",
            short="ratio",
            kind="float",
            default=high,
            doc=f"Upper bound of {doc}" + ("" if low is None else ", inclusive") + "; NeMo-RL itself has no default.",
        ),
    )


def _truncated(kind: str) -> str:
    return _source(
        f"use_importance_sampling_correction=True, truncated_importance_sampling_type={kind!r}, "
        "truncated_importance_sampling_ratio_min, truncated_importance_sampling_ratio"
    )


_ORDERED = Constraint("at_most", ("ratio_min", "ratio"))
_POSITIVE = Constraint("positive", ("ratio",))
_NO_SEQUENCE = Constraint("not", (SEQUENCE_LEVEL,), True, "its weights are of tokens, whatever it rejects")

_RECIPES = (
    Recipe(
        name="nemo-rl/none",
        summary="No correction of the generation mismatch.",
        formula="w_t = 1",
        source=_source("use_importance_sampling_correction=False, the default"),
        weight=WeightRule(Level.NONE, PAIR),
        filters=(_ERROR,),
        notes=("The trainer's own ratio, current over trainer, still applies inside the loss.", _DROPS),
    ),
    Recipe(
        name="nemo-rl/is",
        summary="Ratio as weight, without a bound.",
        formula=f"{_RATIO}\nw_t = rho_t",
        source=_source("use_importance_sampling_correction=True, without a truncated_importance_sampling_type"),
        weight=WeightRule(_LEVEL, PAIR, overflow="zero_first"),
        filters=(_ERROR,),
        notes=("Nothing bounds the weight: one token can hold the whole gradient.", _GSPO, _INFLATED, _DROPS),
    ),
    Recipe(
        name="nemo-rl/tis",
        summary="Truncated importance sampling: ratio as weight, cut to the bounds.",
        formula=f"{_RATIO}\nw_t = min(max(rho_t, ratio_min), ratio)",
        source=_truncated("tis"),
        options=_bounds(None, 2.0, "the weight"),
        weight=WeightRule(_LEVEL, PAIR, low=_LOW, high=_HIGH, overflow="zero_first"),
        filters=(_ERROR,),
        constraints=(_ORDERED, _POSITIVE),
        notes=(_OVERFLOW, _FROZEN, _GSPO, _INFLATED, _DROPS),
    ),
    Recipe(
        name="nemo-rl/icepop",
        summary="Ratio as weight; outside the bounds it gets 0.",
        formula=f"{_RATIO}\nw_t = rho_t if ratio_min <= rho_t <= ratio, else 0",
        source=_truncated("icepop"),
        options=_bounds(0.5, 5.0, "the ratio"),
        weight=WeightRule(_LEVEL, PAIR, overflow="zero_first"),
        filters=(
            Filter("icepop", reduction=_OVER, low=_LOW, high=_HIGH, pair=PAIR, acts_on=_ACTS_ON, overflow="zero"),
            _ERROR,
        ),
        constraints=(_ORDERED, _POSITIVE),
        notes=(_DENOMINATOR, _FROZEN, _GSPO, _INFLATED, _DROPS),
    ),
    Recipe(
        name="nemo-rl/seq-mask-tis",
        summary="Token ratio as weight; rollouts outside the geometric band get 0.",
        formula="rho_t = exp(trainer_t - inference_t), 0 where it is not finite; "
        "G = mean of (trainer_t - inference_t) over the rollout's loss tokens\n"
        "w_t = rho_t if ratio_min <= exp(G) <= ratio, else 0",
        source=_truncated("seq-mask-tis"),
        options=_bounds(0.999, 1.002, "exp(G)"),
        weight=WeightRule(Level.TOKEN, PAIR, overflow="zero_first"),
        filters=(
            Filter("seq_mask", reduction=Reduction.MEAN, low=_LOW, high=_HIGH, pair=PAIR, acts_on="rollout"),
            _ERROR,
        ),
        constraints=(_ORDERED, _POSITIVE, _NO_SEQUENCE),
        notes=(
            "The name says truncated, but the weight of what is kept is not: it is the raw ratio of each token.",
            "The default band is narrower than the noise of short rollouts.",
            _DENOMINATOR,
            _FROZEN,
            _DROPS,
        ),
    ),
)

FRAMEWORK = Framework(
    name="nemo-rl",
    title="NeMo-RL",
    version="git 7ea279ab",
    recipes=_RECIPES,
    loss_options=LOSS_OPTIONS,
    losses=LOSSES,
    constraints=CONSTRAINTS,
    sums=(("reverse_k3", None), ("jensen_shannon", None), ("weighted_surprise", Pair.CURRENT_INFERENCE)),
)
