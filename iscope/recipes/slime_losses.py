"""slime's policy losses and their options, ``--loss-type policy_loss`` at commit 624b824a."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import (
    Aggregation,
    Constraint,
    Denominator,
    Filter,
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

# The policies of the loss's own ratio: with use_rollout_logprobs the engine's logprobs are the old policy.
_PAIR = by_option("use_rollout_logprobs", (False, Pair.CURRENT_TRAINER), (True, Pair.CURRENT_INFERENCE))
_KINDS = ("k1", "k2", "k3", "low_var_kl")

_KL = Penalty(
    by_option("kl_loss_type", ("low_var_kl", "k3"), *((kind, kind) for kind in _KINDS[:3])),
    Pair.CURRENT_REF,
    by_option("use_kl_loss", (False, 0.0), (True, Ref("kl_loss_coef"))),
    weight=by_option("use_unbiased_kl", (False, None), (True, Pair.CURRENT_TRAINER)),
    output_clamp=by_option("kl_loss_type", ("low_var_kl", 10.0), *((kind, None) for kind in _KINDS[:3])),
)
_GRPO = Loss(
    "clipped_surrogate",
    low=Ref("eps_clip", scale=-1.0, offset=1.0),
    high=Ref("eps_clip_high", offset=1.0, otherwise="eps_clip"),
    dual=Ref("eps_clip_c"),
    pair=_PAIR,
    penalty=_KL,
    aggregation=by_option(
        "calculate_per_token_loss", (False, Aggregation.SEQ_MEAN_TOKEN_MEAN), (True, Aggregation.TOKEN_MEAN)
    ),
    denominator=Denominator(fills_empty=True),
    logs=LossLogs(lag=True),
)

LOSSES = (
    ("grpo", _GRPO),
    ("ppo", _GRPO),
    ("reinforce_plus_plus", _GRPO),
    ("reinforce_plus_plus_baseline", _GRPO),
    ("gspo", replace(_GRPO, level="sequence")),
    ("cispo", replace(_GRPO, type="cispo", dual=None)),
)

# Off-policy sequence masking, whatever the correction; the KL term stays.
OPSM = by_option(
    "use_opsm",
    (False, None),
    (
        True,
        Filter(
            "opsm",
            Quantity.K1,
            Reduction.MEAN,
            high=Ref("opsm_delta"),
            pair=_PAIR,
            space="plain",
            high_signs=Signs.NEGATIVE,
            acts_on="rollout",
            of_loss=True,
        ),
    ),
)


def _number(name: str, default: float | None, doc: str) -> Option:
    return Option(name, name, "float", default, doc, nullable=default is None)


def _switch(name: str, doc: str) -> Option:
    return Option(name, name, "bool", False, doc)


LOSS_OPTIONS = (
    Option(
        name="advantage_estimator",
        short="loss_type",
        kind="choice",
        default="grpo",
        doc="The loss that goes with the estimator, on r = current/trainer. grpo, ppo, reinforce_plus_plus and its "
        "baseline: PPO's clipped surrogate. gspo: the same on the rollout's geometric mean. cispo: r, cut, as a "
        "constant weight.",
        choices=tuple(name for name, _ in LOSSES),
    ),
    _number("eps_clip", 0.2, "Below r = 1 - eps_clip a token with A < 0 has no gradient; cispo's lower cut."),
    _number(
        "eps_clip_high",
        None,
        "Above 1 + eps_clip_high a token with A > 0 has no gradient; cispo's upper cut; none is eps_clip.",
    ),
    _number("eps_clip_c", None, "Dual clip: with A < 0 a token's loss is at most -A eps_clip_c; none is no bound."),
    _switch("use_opsm", "Reject rollouts with A < 0 that drifted further than opsm_delta; their KL term stays."),
    _number("opsm_delta", 1e-4, "With use_opsm, the largest mean of trainer - current of a kept rollout with A < 0."),
    _switch("use_rollout_logprobs", "Take the engine's logprobs as the old policy of r; slime refuses use_tis then."),
    _switch("use_kl_loss", "Add a KL term to the reference."),
    _number("kl_loss_coef", 0.0, "With use_kl_loss, factor of the KL term, which no importance weight touches."),
    Option(
        name="kl_loss_type",
        short="kl_loss_type",
        kind="choice",
        default="k1",
        doc="With use_kl_loss, the estimator per token, u = current - reference: u, u^2 / 2, exp(-u) - 1 + u, or that "
        "with at most 10 (low_var_kl).",
        choices=_KINDS,
    ),
    _switch("use_unbiased_kl", "With use_kl_loss, multiply the KL term by current/trainer, which has a gradient too."),
    _switch(
        "calculate_per_token_loss",
        "Divide the batch's sum by its loss tokens, an empty rollout counting as one, instead of taking the mean over "
        "rollouts of their means.",
    ),
)

CONSTRAINTS = (Constraint("above_one", ("eps_clip_c",)),)
