"""verl's policy losses and their options, ``actor`` of verl 0.9.1."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from iscope.recipes.model import (
    Aggregation,
    BySign,
    Constraint,
    Denominator,
    LogClamp,
    Loss,
    LossLogs,
    Number,
    Option,
    Pair,
    Penalty,
    Ref,
)
from iscope.recipes.rules import by_option

LIMITS = LogClamp(-20.0, 20.0)
# verl's masked means divide by the tokens plus this.
COUNT_EPSILON = 1e-8

_LOW = Ref("clip_ratio_low", otherwise="clip_ratio")
_HIGH = Ref("clip_ratio_high", otherwise="clip_ratio")
_CLIP_LOW, _CLIP_HIGH = replace(_LOW, scale=-1.0, offset=1.0), replace(_HIGH, offset=1.0)
_MODES = {mode.value: mode for mode in Aggregation if not mode.by_group}

_ESTIMATORS: dict[str, Literal["k1", "abs", "k2", "k3"]] = {
    "kl": "k1",
    "k1": "k1",
    "abs": "abs",
    "mse": "k2",
    "k2": "k2",
    "low_var_kl": "k3",
    "k3": "k3",
}
# The ones with a + have the value of the estimator and the gradient of k2.
_KL_TYPES = {f"{name}{plus}": (kind, bool(plus)) for plus in ("", "+") for name, kind in _ESTIMATORS.items()}


def _of_kl_type(k3: float | None) -> Number:
    """A limit that k3 alone has."""
    parts: Number = by_option(
        "kl_loss_type", *((name, k3 if kind == "k3" else None) for name, (kind, _) in _KL_TYPES.items())
    )
    return parts


_REFERENCE = Penalty(
    by_option("kl_loss_type", *((name, kind) for name, (kind, _) in _KL_TYPES.items())),
    Pair.CURRENT_REF,
    Ref("kl_loss_coef"),
    input_clamp=_of_kl_type(20.0),
    output_clamp=_of_kl_type(10.0),
    k2_slope=by_option("kl_loss_type", *((name, plus) for name, (_, plus) in _KL_TYPES.items())),
)
_AGGREGATION = by_option("loss_agg_mode", *_MODES.items())
# The KL term where the rest of the loss is not summed up by loss_agg_mode, or not over the same tokens.
APART = by_option("use_kl_loss", (False, None), (True, replace(_REFERENCE, aggregation=_AGGREGATION)))

# What every loss below has unless it says otherwise.
_AGGREGATED = Loss(
    penalty=by_option("use_kl_loss", (False, None), (True, _REFERENCE)),
    aggregation=_AGGREGATION,
    denominator=Denominator(
        norm_length=Ref("loss_scale_factor"),
        batch_size=Ref("global_batch_size"),
        counts_dropped=Ref("use_v1"),
        count_epsilon=COUNT_EPSILON,
    ),
    logs=LossLogs(lag=True),
)
VANILLA = replace(
    _AGGREGATED,
    type="clipped_surrogate",
    low=_CLIP_LOW,
    high=_CLIP_HIGH,
    dual=Ref("clip_ratio_c"),
    clamp=LIMITS,
)
_DPPO = replace(
    _AGGREGATED, type="dppo", low=_LOW, high=_HIGH, delta=Ref("clip_ratio_c"), clamp=LIMITS, divergence="tv"
)
SCORE = replace(_AGGREGATED, type="score")

LOSSES = (
    ("vanilla", VANILLA),
    ("dppo_tv", _DPPO),
    ("dppo_kl", replace(_DPPO, divergence="kl")),
    (
        "gspo",
        replace(
            _AGGREGATED,
            type="clipped_surrogate",
            low=_CLIP_LOW,
            high=_CLIP_HIGH,
            level="sequence",
            straight_through=True,
            clamp=LogClamp(high=10.0),
        ),
    ),
    (
        "sapo",
        replace(
            _AGGREGATED,
            type="sapo",
            temperature=BySign(Ref("tau_pos"), Ref("tau_neg")),
            clamp=LIMITS,
            penalty=APART,
            aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN,
        ),
    ),
    ("gpg", replace(SCORE, logs=LossLogs(left=True))),
    (
        "geo_mean",
        Loss(
            "geo_mean",
            low=_LOW,
            high=_HIGH,
            aggregation=Aggregation.SEQ_MEAN_TOKEN_SUM,
            denominator=Denominator(count_epsilon=COUNT_EPSILON),
            logs=LossLogs(lag=True),
        ),
    ),
    (
        "dro",
        replace(
            SCORE,
            penalty=Penalty("squared", Pair.CURRENT_TRAINER, Ref("dro_beta", scale=0.5), weighted=True),
        ),
    ),
    ("cispo", replace(_AGGREGATED, type="cispo", low=_CLIP_LOW, high=_CLIP_HIGH, clamp=LIMITS)),
)


def _number(name: str, default: float, doc: str) -> Option:
    return Option(name, name, "float", default, doc)


_LOSS_MODE = Option(
    name="loss_mode",
    short="loss_type",
    kind="choice",
    default="vanilla",
    doc="The policy loss on r = current/trainer, policy_loss.loss_mode. vanilla: PPO's clipped surrogate with a dual "
    "clip. dppo_tv, dppo_kl: r up to clip_ratio_c as a constant weight, for tokens whose probability moved by no more "
    "than clip_ratio_low and clip_ratio_high, as a difference or a binary KL. gspo: r of the whole rollout, clipped, "
    "each token with its own gradient. sapo: a sigmoid gate on r; the aggregation is seq-mean-token-mean "
    "whatever loss_agg_mode says. gpg: no ratio. geo_mean: GMPO, one ratio per rollout, the mean over all rollouts "
    "whatever loss_agg_mode says. dro: no ratio, a quadratic term that holds current to trainer. cispo: r, cut, as a "
    "constant weight. clip_cov and kl_cov are not replayed: they pick tokens by the covariance over a micro-batch, the "
    "first of them at random.",
    aliases=("policy_loss",),
    choices=tuple(name for name, _ in LOSSES),
)
_LOSS_AGG_MODE = Option(
    name="loss_agg_mode",
    short="loss_agg_mode",
    kind="choice",
    default="token-mean",
    doc="How the losses of the tokens become one number.",
    choices=tuple(_MODES),
)

LOSS_OPTIONS = (
    _LOSS_MODE,
    _number("clip_ratio", 0.2, "Stands in for clip_ratio_low and clip_ratio_high where they are none."),
    Option(
        name="clip_ratio_low",
        short="clip_ratio_low",
        kind="float",
        default=0.2,
        doc="Below 1 - clip_ratio_low a token with A < 0 has no gradient; with geo_mean in log r, with dppo_tv and "
        "dppo_kl the divergence allowed where A <= 0.",
        nullable=True,
    ),
    Option(
        name="clip_ratio_high",
        short="clip_ratio_high",
        kind="float",
        default=0.2,
        doc="Above 1 + clip_ratio_high a token with A > 0 has no gradient; with geo_mean in log r, with dppo_tv and "
        "dppo_kl the divergence allowed where A > 0.",
        nullable=True,
    ),
    _number(
        "clip_ratio_c",
        3.0,
        "Dual clip: above it a token with A < 0 has no gradient; with dppo_tv and dppo_kl r is cut to it.",
    ),
    _LOSS_AGG_MODE,
    Option(
        name="loss_scale_factor",
        short="loss_scale_factor",
        kind="int",
        default=None,
        doc="With seq-mean-token-sum-norm, the tokens that each rollout's sum is divided by. Left out, verl takes the "
        "padded length of the micro-batch, which no dump holds.",
        nullable=True,
    ),
    Option(
        name="global_batch_size",
        short="global_batch_size",
        kind="int",
        default=None,
        doc="Rollouts that the seq-mean modes divide by, ppo_mini_batch_size * rollout.n in verl; none takes those of "
        "the batch, empty ones included.",
        nullable=True,
    ),
    Option(
        name="use_v1",
        short="use_v1",
        kind="bool",
        default=True,
        doc="The trainer of verl's default, where rejected tokens stay in the count that token-mean divides by; false "
        "is the older one, where they leave it. A rollout's own mean is over its remaining tokens in both.",
    ),
    _number("tau_pos", 1.0, "With sapo, the temperature of the gate where A > 0."),
    _number("tau_neg", 1.05, "With sapo, the temperature of the gate where A <= 0."),
    Option(
        name="dro_beta",
        short="dro_beta",
        kind="float",
        default=None,
        doc="With dro, which needs it, the factor of the quadratic term.",
        nullable=True,
    ),
    Option(
        name="use_kl_loss",
        short="use_kl_loss",
        kind="bool",
        default=False,
        doc="Add a KL term to the reference, which no importance weight touches and loss_agg_mode sums up.",
    ),
    _number("kl_loss_coef", 0.001, "With use_kl_loss, factor of the KL term."),
    Option(
        name="kl_loss_type",
        short="kl_loss_type",
        kind="choice",
        default="low_var_kl",
        doc="With use_kl_loss, the estimator per token, u = current - reference: u (kl, k1), abs(u), u^2 / 2 (mse, "
        "k2), or exp(-u) - 1 + u with abs(u) at most 20 and the whole at most 10 (low_var_kl, k3); with a + the value "
        "of the same and the gradient of k2.",
        choices=tuple(_KL_TYPES),
    ),
)

CONSTRAINTS = (
    Constraint("above_one", ("clip_ratio_c",)),
    Constraint("any", ("loss_scale_factor",), when=("loss_agg_mode", "seq-mean-token-sum-norm")),
    Constraint("positive", ("loss_scale_factor",)),
    Constraint("positive", ("global_batch_size",)),
    Constraint("positive", ("tau_pos",)),
    Constraint("positive", ("tau_neg",)),
    Constraint("any", ("dro_beta",), when=("loss_type", "dro")),
    Constraint("positive", ("dro_beta",)),
    *(
        Constraint("not", ("use_kl_loss",), True, f"beside {name} the KL term is not replayed", ("loss_type", name))
        for name in ("dro", "geo_mean")
    ),
)
