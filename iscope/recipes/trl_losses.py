"""TRL's loss types and their options, ``GRPOConfig`` of TRL 1.16.0."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import Aggregation, BySign, Constraint, Denominator, Loss, Option, Pair, Penalty, Ref

_KL = Penalty("k3", Pair.CURRENT_REF, Ref("beta"), ratio_factor=Ref("use_bias_correction_kl"))
_LEVEL = Ref("importance_sampling_level")
_CAP = Ref("epsilon_high", otherwise="epsilon")

_DAPO = Loss(
    "clipped_surrogate",
    low=Ref("epsilon", scale=-1.0, offset=1.0),
    high=replace(_CAP, offset=1.0),
    delta=Ref("delta"),
    level=_LEVEL,
    penalty=_KL,
)
_SAPO = Loss(
    "sapo",
    level=_LEVEL,
    temperature=BySign(Ref("sapo_temperature_pos"), Ref("sapo_temperature_neg"), float32=True),
    penalty=_KL,
    aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN,
)
# The level concerns the factor of VESPO's KL term only: its own weight is of the whole rollout at either.
_VESPO = Loss(
    "vespo",
    level=_LEVEL,
    power=BySign(Ref("vespo_k_pos"), Ref("vespo_k_neg"), float32=True),
    rate=BySign(Ref("vespo_lambda_pos"), Ref("vespo_lambda_neg"), float32=True),
    penalty=_KL,
)

LOSSES = (
    ("dapo", _DAPO),
    ("grpo", replace(_DAPO, aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN)),
    ("bnpo", _DAPO),
    (
        "dr_grpo",
        replace(
            _DAPO,
            aggregation=Aggregation.SEQ_MEAN_TOKEN_SUM_NORM,
            denominator=Denominator(norm_length=Ref("max_completion_length")),
        ),
    ),
    ("luspo", replace(_DAPO, aggregation=Aggregation.SEQ_MEAN_TOKEN_SUM)),
    ("cispo", Loss("cispo", high=_CAP, level=_LEVEL, penalty=_KL)),
    ("sapo", _SAPO),
    ("vespo", _VESPO),
)


def _number(name: str, default: float, doc: str) -> Option:
    return Option(name, name, "float", default, doc)


def _optional(name: str, doc: str) -> Option:
    return Option(name, name, "float", None, doc, nullable=True)


_LOSS_TYPE = Option(
    name="loss_type",
    short="loss_type",
    kind="choice",
    default="dapo",
    doc="The loss on r = current/trainer. PPO's clipped surrogate: dapo and bnpo divide the batch's sum by its loss "
    "tokens, grpo takes the mean over rollouts of their means, dr_grpo divides by rollouts times "
    "max_completion_length, luspo takes the mean over rollouts of their sums. cispo: r, cut at epsilon_high itself, as "
    "a constant weight. sapo: a sigmoid gate on r. vespo: a gamma-shaped weight of the whole rollout, into which the "
    "importance weights go as a product.",
    choices=tuple(name for name, _ in LOSSES),
)
_IMPORTANCE_SAMPLING_LEVEL = Option(
    name="importance_sampling_level",
    short="importance_sampling_level",
    kind="choice",
    default="token",
    doc="Over what r is taken: token, or sequence, exp of the rollout's mean log-ratio (GSPO). At sequence every token "
    "gets the rollout's mean weight: a token that token_mask rejects still has a gradient.",
    choices=("token", "sequence"),
)

LOSS_OPTIONS = (
    _LOSS_TYPE,
    _IMPORTANCE_SAMPLING_LEVEL,
    _number("epsilon", 0.2, "Clipping of r: below 1 - epsilon a token with A < 0 has no gradient."),
    _optional(
        "epsilon_high",
        "Above 1 + epsilon_high a token with A > 0 has no gradient; with cispo r is cut at epsilon_high itself, so 5 "
        "is usual there; none is epsilon.",
    ),
    _optional("delta", "Two-sided clipping: with A < 0 no gradient above delta or 1 + epsilon_high; none is no bound."),
    _number("sapo_temperature_pos", 1.0, "With sapo, the temperature of the gate where A > 0."),
    _number("sapo_temperature_neg", 1.05, "With sapo, the temperature of the gate where A <= 0."),
    _number("vespo_k_pos", 2.0, "With vespo, the power of the weight where A >= 0."),
    _number("vespo_lambda_pos", 3.0, "With vespo, the decay of the weight where A >= 0."),
    _number("vespo_k_neg", 3.0, "With vespo, the power of the weight where A < 0."),
    _number("vespo_lambda_neg", 2.0, "With vespo, the decay of the weight where A < 0."),
    _optional(
        "off_policy_mask_threshold",
        "A rollout with A < 0 whose mean of inference - current exceeds it gets weight 0, KL term aside; none is off.",
    ),
    _number("beta", 0.0, "Factor of the KL term to the reference (k3 per token), which no importance weight touches."),
    Option(
        name="use_bias_correction_kl",
        short="use_bias_correction_kl",
        kind="bool",
        default=True,
        doc="Multiply the KL term by r, with the gradient through both; false was the default up to TRL 1.9.",
    ),
    Option(
        name="max_completion_length",
        short="max_completion_length",
        kind="int",
        default=512,
        doc="With dr_grpo, the tokens that each rollout's sum is divided by, whatever its length.",
    ),
)

CONSTRAINTS = (
    Constraint("positive", ("sapo_temperature_pos",)),
    Constraint("positive", ("sapo_temperature_neg",)),
    Constraint("positive", ("max_completion_length",)),
)
