"""AReaL's corrections of the engine mismatch, ``PPOActor`` of AReaL 1.0.4: rejection sampling and M2PO."""

from __future__ import annotations

from iscope.recipes.areal_losses import CONSTRAINTS, COUPLED_LOSS, LOSS_OPTIONS, PPO_LOSS, SAPO_LOSS
from iscope.recipes.model import (
    Constraint,
    Filter,
    Framework,
    Level,
    Option,
    Pair,
    Quantity,
    Recipe,
    Reduction,
    Ref,
    WeightRule,
    by_option,
)

_M2 = "m2_threshold"
_LOW, _HIGH = Ref("lower"), Ref("upper")

_PREFIX = "rejection_sampling"
_OPTIONS = (
    Option(
        name=f"{_PREFIX}_level",
        short="level",
        kind="choice",
        default="token",
        doc="Test each token, or the rollout as a whole.",
        choices=("token", "sequence"),
    ),
    Option(
        name=f"{_PREFIX}_action",
        short="action",
        kind="choice",
        default="mask",
        doc="mask: what is out of bounds is rejected. clamp: the weight is cut to the bounds; takes metric=ratio.",
        choices=("mask", "clamp"),
    ),
    Option(
        name=f"{_PREFIX}_metric",
        short="metric",
        kind="choice",
        default="ratio",
        doc="What is compared with the bounds, of d_t: exp(d_t), d_t, d_t^2 / 2, or exp(-d_t) - 1 + d_t.",
        choices=("ratio", "kl_k1", "kl_k2", "kl_k3"),
    ),
    Option(
        name=f"{_PREFIX}_agg",
        short="agg",
        kind="choice",
        default="mean",
        doc="With level=sequence, how the rollout's tokens become one number; of a ratio, before exp is taken.",
        choices=("sum", "mean", "max"),
    ),
    Option(f"{_PREFIX}_upper", "upper", "float", 5.0, "Upper bound, inclusive."),
    Option(f"{_PREFIX}_lower", "lower", "float", None, "Lower bound, inclusive; none is no bound.", nullable=True),
)


def _m2_threshold(default: float | None, said: str) -> Option:
    doc = f"The tokens of the batch with the largest d_t^2 are dropped until its mean is below it; {said}."
    return Option(_M2, _M2, "float", default, doc, nullable=default is None)


# d^2 / 2 against half of the threshold.
_M2PO = Filter("m2po", Quantity.K2, space="plain", drops=True, mean_high=Ref(_M2, scale=0.5))
_QUANTITY = by_option(
    "metric",
    ("ratio", Quantity.LOG_RATIO),
    ("kl_k1", Quantity.LOG_RATIO),
    ("kl_k2", Quantity.K2),
    ("kl_k3", Quantity.K3_REVERSE),
)
_REDUCTION = by_option("agg", ("sum", Reduction.SUM), ("mean", Reduction.MEAN), ("max", Reduction.MAX))
_REJECTION = Filter(
    _PREFIX,
    quantity=_QUANTITY,
    reduction=by_option("level", ("token", Reduction.TOKEN), ("sequence", _REDUCTION)),
    low=_LOW,
    high=_HIGH,
    space=by_option("metric", ("ratio", "ratio"), otherwise="plain"),
    sees=by_option(_M2, (None, "original"), otherwise="survivors"),
    acts_on=by_option("level", ("token", "token"), ("sequence", "rollout")),
)
_WEIGHT = WeightRule(
    level=by_option(
        "level",
        ("token", Level.TOKEN),
        ("sequence", by_option("metric", ("ratio", Level.GEOMETRIC), otherwise=Level.TOKEN)),
    ),
    low=by_option("action", ("mask", None), ("clamp", _LOW)),
    high=by_option("action", ("mask", None), ("clamp", _HIGH)),
    sees=by_option(_M2, (None, "original"), otherwise="survivors"),
    decided_by=by_option("agg", ("mean", None), ("sum", Reduction.SUM), ("max", Reduction.MAX)),
)

_VERSION = "AReaL 1.0.4, PPOActorConfig"
_D = "d_t = trainer_t - inference_t"
_ONE_RATIO = (
    "rho_t = exp(current_t - inference_t), with importance_sampling_level=sequence exp of the mean over the rollout"
)
_FROZEN = "The weight is constant: the loss's own ratio, current over trainer, carries the gradient."
_DENOMINATOR = "What rejection sampling rejects stays in the loss's denominator; what m2_threshold drops does not."
_SCALE = (
    "AReaL then weighs a micro-batch by its loss tokens before m2_threshold: of several micro-batches, one that lost "
    "tokens counts more for each token left. Here the batch is one micro-batch."
)
_SORT = (
    "The tokens of a whole micro-batch are sorted together: what is dropped depends on the others in the batch. At the "
    "same d_t^2, those that come first in the dump go first."
)
_UNSCORED = "AReaL gives a d_t that is not finite ratio 1; it refuses a trainer logprob that is not finite."
_DISTILLATION = "The teacher's term (teacher_logp) is not replayed: no dump has its logprobs."
_PROXIMAL = (
    "With prox_logp_method=loglinear AReaL interpolates the trainer logprob between inference and current; here it is "
    "always the one in the dump."
)
_STANDS_IN = "Without current logprobs the trainer's stand in: the ratio then holds the engine's share only."

_NONE = Recipe(
    name="areal/none",
    summary="Decoupled loss without a weight: no correction of the engine mismatch.",
    formula="w_t = 1",
    source=f"{_VERSION}: use_decoupled_loss=True, rejection_sampling=None",
    notes=(
        "AReaL's decoupled loss without rejection_sampling has no behaviour weight at all.",
        "The trainer's own ratio, current over trainer, still applies inside the loss.",
        "With use_decoupled_loss=False and recompute_logprob=True the loss is the same.",
        _PROXIMAL,
        _DISTILLATION,
    ),
)
_SAMPLING = Recipe(
    name="areal/rejection_sampling",
    summary="Ratio as weight; tokens or rollouts out of bounds are rejected, or their weight is cut.",
    formula=f"{_D}; rho_t = exp(d_t), G = mean of d_t over the rollout's loss tokens\n"
    "x = metric of d_t; with level=sequence its agg over the rollout, of a ratio exp of the agg of d_t\n"
    "w_t = rho_t, or exp(G) with level=sequence and metric=ratio\n"
    "action=mask: 0 unless lower <= x <= upper; action=clamp: min(max(w_t, lower), upper) where x is out of bounds\n"
    "m2_threshold first drops the tokens with the largest d_t^2 of the batch",
    source=f"{_VERSION}: use_decoupled_loss=True, rejection_sampling with its level, action, metric, agg, upper and "
    "lower (here " + ", ".join(option.name for option in _OPTIONS) + "), m2_threshold",
    options=(*_OPTIONS, _m2_threshold(None, "none drops nothing")),
    weight=_WEIGHT,
    filters=(_M2PO, by_option("action", ("mask", _REJECTION), ("clamp", None))),
    constraints=(
        Constraint("at_most", ("lower", "upper")),
        Constraint("above_one", ("upper",), when=("metric", "ratio")),
        Constraint("positive", ("upper",), when=("metric", "kl_k2")),
        Constraint("positive", ("upper",), when=("metric", "kl_k3")),
        *(
            Constraint("not", ("metric",), metric, "AReaL cuts a weight by its ratio only", when=("action", "clamp"))
            for metric in ("kl_k1", "kl_k2", "kl_k3")
        ),
        Constraint("positive", (_M2,)),
    ),
    notes=(
        "With level=sequence and metric=ratio the weight is exp(G) whatever agg is: agg decides who is rejected.",
        "agg=sum tests the product over the rollout: on the same mismatch per token, a longer one lies further from 1.",
        "kl_k3 is exp(-d_t) - 1 + d_t; AReaL's help text gives that of -d_t.",
        _DENOMINATOR,
        _SORT,
        _SCALE,
        _FROZEN,
        _UNSCORED,
        _PROXIMAL,
        _DISTILLATION,
    ),
)
_M2PO_ROW = Recipe(
    name="areal/m2po",
    summary="M2PO: the tokens of the batch with the largest squared log-ratio are dropped; no weight.",
    formula=f"{_D}\n"
    "dropped: the largest d_t^2 of the batch, as few as bring the mean of the others below m2_threshold\n"
    "w_t = 1 for the others",
    source=f"{_VERSION}: use_decoupled_loss=True, m2_threshold, rejection_sampling=None; the default here is the "
    "threshold of M2PO (arXiv:2510.01161), AReaL's own is none",
    options=(_m2_threshold(0.04, "at least one token stays"),),
    filters=(_M2PO,),
    constraints=(Constraint("positive", (_M2,)),),
    notes=(_SORT, "What is dropped leaves the loss's denominator.", _SCALE, _UNSCORED, _PROXIMAL, _DISTILLATION),
)
_COUPLED = Recipe(
    name="areal/coupled",
    summary="PPO with the engine's logprobs as the old policy's: one ratio, current over inference.",
    formula=f"{_ONE_RATIO}\nloss = -min(rho A, clamp(rho, 1 - eps_clip, 1 + eps_clip_higher) A)",
    source=f"{_VERSION}: use_decoupled_loss=False, recompute_logprob=False, use_sapo_loss=False, the defaults",
    weight=WeightRule(
        by_option("importance_sampling_level", ("token", Level.TOKEN), ("sequence", Level.GEOMETRIC)),
        Pair.CURRENT_INFERENCE,
    ),
    loss=COUPLED_LOSS,
    notes=(
        "This is what AReaL runs unless told otherwise; m2_threshold has no effect here.",
        _STANDS_IN,
        _DISTILLATION,
    ),
)
_SAPO = Recipe(
    name="areal/sapo",
    summary="SAPO with the engine's logprobs as the old policy's: a sigmoid gate in place of clipping.",
    formula=f"{_ONE_RATIO}\n"
    "loss = -A (4 / tau) sigmoid(tau (rho - 1)), tau = sapo_tau_pos where A > 0, else sapo_tau_neg",
    source=f"{_VERSION}: use_sapo_loss=True, sapo_tau_pos, sapo_tau_neg, use_decoupled_loss=False",
    options=(
        Option("sapo_tau_pos", "sapo_tau_pos", "float", 1.0, "Temperature of the gate where A > 0."),
        Option("sapo_tau_neg", "sapo_tau_neg", "float", 1.05, "Temperature of the gate where A <= 0."),
    ),
    loss=SAPO_LOSS,
    constraints=(Constraint("positive", ("sapo_tau_pos", "sapo_tau_neg")),),
    notes=(
        "AReaL refuses it with use_decoupled_loss=True.",
        "The ratio is inside the gate: there is no weight beside it.",
        _STANDS_IN,
        _DISTILLATION,
    ),
)

FRAMEWORK = Framework(
    name="areal",
    title="AReaL",
    version="1.0.4",
    recipes=(_NONE, _SAMPLING, _M2PO_ROW, _COUPLED, _SAPO),
    loss_options=LOSS_OPTIONS,
    losses=(("", PPO_LOSS),),
    constraints=CONSTRAINTS,
)
