"""ms-swift's loss types and their options, ``GRPOTrainer`` of ms-swift 4.6.0."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import (
    Aggregation,
    BySign,
    Constraint,
    Denominator,
    Filter,
    Influence,
    Loss,
    LossLogs,
    Option,
    Pair,
    Penalty,
    Quantity,
    Reduction,
    Ref,
    Signs,
    by_option,
)

_LEVELS = ("token", "sequence", "sequence_token")
_CAP = Ref("epsilon_high", otherwise="epsilon")

_PENALTY = Penalty("k3", Pair.CURRENT_REF, Ref("beta"), weighted=True, input_clamp=20.0, output_clamp=10.0)
_GRPO = Loss(
    "clipped_surrogate",
    low=Ref("epsilon", scale=-1.0, offset=1.0),
    high=replace(_CAP, offset=1.0),
    delta=Ref("delta"),
    level=by_option(
        "importance_sampling_level", ("token", "token"), *((name, "sequence") for name in _LEVELS if name != "token")
    ),
    straight_through=by_option("importance_sampling_level", ("sequence_token", True), otherwise=False),
    penalty=_PENALTY,
    aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN,
    logs=LossLogs(left=True),
)
_BNPO = replace(_GRPO, aggregation=Aggregation.TOKEN_MEAN)
# The tokens that dapo, cispo and fipo divide by are counted before off-policy sequence masking.
_DAPO = replace(_BNPO, denominator=Denominator(counts_dropped=True))

LOSSES = (
    ("grpo", _GRPO),
    ("bnpo", _BNPO),
    (
        "dr_grpo",
        replace(
            _GRPO,
            aggregation=Aggregation.SEQ_MEAN_TOKEN_SUM_NORM,
            denominator=Denominator(norm_length=Ref("max_completion_length")),
        ),
    ),
    ("dapo", _DAPO),
    ("cispo", replace(_DAPO, type="cispo", low=None, high=_CAP, delta=None)),
    (
        "sapo",
        replace(
            _GRPO, type="sapo", low=None, high=None, delta=None, temperature=BySign(Ref("tau_pos"), Ref("tau_neg"))
        ),
    ),
    (
        "fipo",
        replace(
            _DAPO,
            influence=Influence(
                half_life=Ref("fipo_decay_rate"),
                reach=Ref("fipo_clip_range"),
                above_one=Ref("fipo_clip_high_only"),
                threshold=Ref("fipo_safety_threshold"),
            ),
        ),
    ),
    (
        "real",
        Loss(
            "group_contrast",
            level="sequence",
            temperature=BySign(Ref("real_tau"), Ref("real_tau")),
            penalty=replace(_PENALTY, weighted=False, aggregation=Aggregation.TOKEN_MEAN),
            aggregation=Aggregation.GROUP_MEAN_TOKEN_SUM,
            logs=LossLogs(left=True),
        ),
    ),
)

# Off-policy sequence masking, whatever the correction: out of the loss mask, the KL term too.
OFF_POLICY = Filter(
    "off_policy_sequence_mask",
    Quantity.K1,
    Reduction.MEAN,
    high=Ref("off_policy_sequence_mask_delta"),
    pair=Pair.CURRENT_INFERENCE,
    space="plain",
    high_signs=Signs.NEGATIVE,
    acts_on="rollout",
    drops=True,
)


def _number(name: str, default: float | None, doc: str) -> Option:
    return Option(name, name, "float", default, doc, nullable=default is None)


_FIPO_OPTIONS = (
    _number("fipo_decay_rate", 32.0, "With fipo, the distance in positions at which a later log r counts half."),
    Option(
        name="fipo_clip_range",
        short="fipo_clip_range",
        kind="float",
        default=0.2,
        doc="With fipo, how far from 1 the influence may lie; none, for which ms-swift takes 0 too, is no bound.",
        nullable=True,
    ),
    Option(
        name="fipo_clip_high_only",
        short="fipo_clip_high_only",
        kind="bool",
        default=True,
        doc="With fipo, the influence may not lie below 1; only with fipo_clip_range.",
    ),
    Option(
        name="fipo_safety_threshold",
        short="fipo_safety_threshold",
        kind="float",
        default=4.0,
        doc="With fipo, a token with A < 0 and r above it has an influence of 0.8 to 1; none is no such rule.",
        nullable=True,
    ),
)

LOSS_OPTIONS = (
    Option(
        name="loss_type",
        short="loss_type",
        kind="choice",
        default="grpo",
        doc="The loss on r = current/trainer. PPO's clipped surrogate: grpo takes the mean over rollouts of their "
        "means, bnpo and dapo divide the batch's sum by its loss tokens (dapo counts those that off-policy sequence "
        "masking took out too), dr_grpo divides by rollouts times max_completion_length; fipo is dapo with the "
        "influence of later tokens as a factor. cispo: r, cut at epsilon_high itself, as a constant weight. sapo: a "
        "sigmoid gate on r, aggregated like grpo. real: the mean log r of rollouts with A > 0 against that of the "
        "others of their group, by group_id, whatever the size of A; no weight has a part in it.",
        choices=tuple(name for name, _ in LOSSES),
    ),
    Option(
        name="importance_sampling_level",
        short="importance_sampling_level",
        kind="choice",
        default="token",
        doc="Over what r is taken: token; sequence, exp of the rollout's mean log-ratio (GSPO); sequence_token, the "
        "same value with a gradient through the token's own logprob alone.",
        choices=_LEVELS,
    ),
    _number("epsilon", 0.2, "Clipping of r: below 1 - epsilon a token with A < 0 has no gradient."),
    _number(
        "epsilon_high",
        None,
        "Above 1 + epsilon_high a token with A > 0 has no gradient; cispo cuts r at epsilon_high itself, so 5 is usual "
        "there; none is epsilon.",
    ),
    _number(
        "delta",
        None,
        "Two-sided clipping: with A < 0 no gradient above delta or 1 + epsilon_high; with fipo such tokens leave the "
        "influence as well; none is no bound.",
    ),
    _number("tau_pos", 1.0, "With sapo, the temperature of the gate where A > 0."),
    _number("tau_neg", 1.05, "With sapo, the temperature of the gate where A <= 0."),
    _number("real_tau", 0.5, "With real, the temperature of the mean log r; the slope by it is at most 1 / real_tau."),
    *_FIPO_OPTIONS,
    _number(
        "off_policy_sequence_mask_delta",
        None,
        "A rollout with A < 0 whose mean of inference - current exceeds it leaves the loss mask, and with it the "
        "denominators of grpo, bnpo and sapo; none is off.",
    ),
    _number(
        "beta",
        0.0,
        "Factor of the KL term to the reference (k3 per token, at most 10), which the importance weight multiplies. "
        "ms-swift's default for GRPO is 0.04, which needs reference logprobs; 0 also with kl_in_reward.",
    ),
    Option(
        name="max_completion_length",
        short="max_completion_length",
        kind="int",
        default=512,
        doc="With dr_grpo, the tokens that each rollout's sum is divided by, whatever its length.",
    ),
)

CONSTRAINTS = tuple(
    Constraint("positive", (name,))
    for name in ("tau_pos", "tau_neg", "real_tau", "fipo_decay_rate", "fipo_clip_range", "max_completion_length")
)
