"""verl's rollout correction: weights, rejection and the presets, ``algorithm.rollout_correction`` of verl 0.9.1."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import (
    Constraint,
    Filter,
    Framework,
    Level,
    LogClamp,
    Option,
    Pair,
    Recipe,
    Ref,
    WeightRule,
)
from iscope.recipes.rules import by_option
from iscope.recipes.verl_losses import CONSTRAINTS, LIMITS, LOSS_OPTIONS, LOSSES
from iscope.recipes.verl_presets import PPO_CLIP, PRESETS, REINFORCE
from iscope.recipes.verl_rules import (
    AND,
    BYPASS,
    CLIP_ONLY,
    CONFIG,
    DECOUPLED,
    DEFAULTS,
    DROPPED,
    INVERTED,
    KS_TEXT,
    LEVELS,
    LOGGED,
    MICRO_BATCH,
    NO_LOWER,
    NORMALISED,
    OF_SUM,
    RHO,
    RS_DEFAULTS,
    RS_OPTIONS,
    ZEROED,
    icepop,
    rejections,
    unweighted,
    weight,
)

_TRAPS = (INVERTED, AND, DROPPED)
_WEIGHT_TRAPS = (NO_LOWER, ZEROED)
_NO_GEO_MEAN = Constraint(
    "not", ("loss_type",), "geo_mean", "iscope does not replay the two together", when=("batch_normalize", True)
)

_LEVEL = Option(
    name="rollout_is",
    short="level",
    kind="choice",
    default="sequence",
    doc="Over what the weight is taken: the token's ratio, or the product over the rollout.",
    choices=("token", "sequence"),
)
_THRESHOLD = Option(
    name="rollout_is_threshold",
    short="threshold",
    kind="pair",
    default=2.0,
    doc="Upper truncation of the weight, or a pair L_U outside which it is 0 (IcePop).",
)
_BATCH_NORMALIZE = Option(
    name="rollout_is_batch_normalize",
    short="batch_normalize",
    kind="bool",
    default=False,
    doc="Divide the weights by their mean over the batch: of tokens, or of rollouts with level=sequence.",
)
_OPTION = Option(
    name="rollout_rs",
    short="option",
    kind="names",
    default="seq_sum_k1",
    doc="What is tested; several join with commas, and a token must pass all.",
    choices=RS_OPTIONS,
)
_RS_THRESHOLD = Option(
    name="rollout_rs_threshold",
    short="threshold",
    kind="pairs",
    default="0.5_2",
    doc="One bound for all options, or one each, with commas. k1 takes a pair L_U, or U alone for 1/U_U; the others an "
    "upper bound.",
)


def _level_icepop(bound: str, pair: Pair = DECOUPLED) -> Filter:
    parts = (("token", icepop("token", bound, pair)), ("sequence", icepop("sequence", bound, pair)), ("none", None))
    found: Filter = by_option("level", *parts)
    return found


def _level_weight(bound: str, pair: Pair = DECOUPLED) -> WeightRule:
    clamp: LogClamp = by_option("level", ("token", LIMITS), ("sequence", OF_SUM), ("none", LIMITS))
    return replace(weight(Ref("level"), bound, pair, clamp=clamp), normalise=Ref("batch_normalize"))


_RS_OPTIONS = (
    replace(_OPTION, default=None, nullable=True),
    replace(_RS_THRESHOLD, short="rs_threshold", default=None, nullable=True),
)
_BOTH_OPTIONS = (
    replace(_LEVEL, choices=("none", *_LEVEL.choices)),
    replace(_THRESHOLD, short="is_threshold"),
    _BATCH_NORMALIZE,
    *_RS_OPTIONS,
)

_GENERAL = (
    Recipe(
        name="verl/none",
        summary="No correction of the engine mismatch; its metrics are logged.",
        formula="w_t = 1",
        source=f"{CONFIG}: rollout_is=null, rollout_rs=null, preset disabled",
        weight=unweighted(),
        notes=("The loss's own ratio, current over trainer, still applies.",),
    ),
    Recipe(
        name="verl/rollout_is",
        summary="Ratio of the token or product over the rollout as weight, truncated or, with a pair, zeroed outside.",
        formula=f"{RHO[DECOUPLED]}\n{LEVELS}\nw_t = min(rho_t, threshold); with threshold=L_U w_t = rho_t if "
        "L <= rho_t <= U, else 0\nwith batch_normalize w_t = w_t / mean w",
        source=f"{CONFIG}: rollout_is, rollout_is_threshold, rollout_is_batch_normalize",
        options=(_LEVEL, _THRESHOLD, _BATCH_NORMALIZE),
        constraints=(_NO_GEO_MEAN,),
        weight=_level_weight("threshold"),
        filters=(_level_icepop("threshold"),),
        notes=(*_WEIGHT_TRAPS, NORMALISED, LOGGED, DEFAULTS),
    ),
    Recipe(
        name="verl/rollout_rs",
        summary="Tokens or rollouts whose divergence lies outside the bounds leave the loss mask; weight 1.",
        formula=f"{RHO[DECOUPLED]}\n{KS_TEXT}\noption names them, threshold holds U or L_U for each",
        source=f"{CONFIG}: rollout_rs, rollout_rs_threshold",
        options=(_OPTION, _RS_THRESHOLD),
        weight=unweighted(),
        filter_list=rejections(Ref("option"), "threshold"),
        notes=(*_TRAPS, RS_DEFAULTS),
    ),
    Recipe(
        name="verl/rollout_correction",
        summary="Weights of rollout_is and rejection of rollout_rs together.",
        formula=f"{RHO[DECOUPLED]}\n{LEVELS}\nw_t = min(rho_t, is_threshold); with is_threshold=L_U w_t = rho_t if "
        f"L <= rho_t <= U, else 0\nwith batch_normalize w_t = w_t / mean w\n{KS_TEXT}\noption names them, "
        "rs_threshold holds U or L_U for each",
        source=f"{CONFIG}: rollout_is, rollout_is_threshold, rollout_is_batch_normalize, rollout_rs, "
        "rollout_rs_threshold",
        options=_BOTH_OPTIONS,
        weight=_level_weight("is_threshold"),
        filters=(_level_icepop("is_threshold"),),
        filter_list=rejections(Ref("option"), "rs_threshold"),
        constraints=(_NO_GEO_MEAN,),
        notes=(*_WEIGHT_TRAPS, NORMALISED, *_TRAPS, LOGGED, DEFAULTS),
    ),
    Recipe(
        name="verl/bypass_pg",
        summary="REINFORCE with current/inference: weights of rollout_is and rejection of rollout_rs together.",
        formula=f"{RHO[BYPASS]}\n{LEVELS}\nw_t = min(rho_t, is_threshold); with is_threshold=L_U w_t = rho_t if "
        f"L <= rho_t <= U, else 0\nwith batch_normalize w_t = w_t / mean w\n{KS_TEXT}\noption names them, "
        "rs_threshold holds U or L_U for each\nloss = -A w_t log pi",
        source=f"{CONFIG}: bypass_mode=true, loss_type=reinforce, rollout_is, rollout_is_threshold, "
        "rollout_is_batch_normalize, rollout_rs, rollout_rs_threshold",
        options=_BOTH_OPTIONS,
        weight=_level_weight("is_threshold", BYPASS),
        filters=(_level_icepop("is_threshold", BYPASS),),
        filter_list=rejections(Ref("option"), "rs_threshold", BYPASS),
        loss=REINFORCE,
        notes=(*_WEIGHT_TRAPS, NORMALISED, *_TRAPS, LOGGED, MICRO_BATCH),
    ),
    Recipe(
        name="verl/bypass_ppo_clip_rs",
        summary="PPO's clipped surrogate on current/inference; any rejection of rollout_rs.",
        formula=f"{RHO[BYPASS]}\nloss = vanilla's, with r_t = exp(d_t)\n{KS_TEXT}\noption names them, rs_threshold "
        "holds U or L_U for each",
        source=f"{CONFIG}: bypass_mode=true, loss_type=ppo_clip, rollout_rs, rollout_rs_threshold",
        options=(_OPTION, replace(_RS_THRESHOLD, short="rs_threshold")),
        weight=replace(unweighted(BYPASS), level=Level.TOKEN),
        filter_list=rejections(Ref("option"), "rs_threshold", BYPASS),
        loss=PPO_CLIP,
        notes=(*_TRAPS, RS_DEFAULTS, CLIP_ONLY, MICRO_BATCH),
    ),
)

FRAMEWORK = Framework(
    name="verl",
    title="verl",
    version="0.9.1",
    recipes=(*_GENERAL, *PRESETS),
    loss_options=LOSS_OPTIONS,
    losses=LOSSES,
    constraints=CONSTRAINTS,
    sums=(("limited_ratio", None), ("limited_ratio_sq", None)),
    not_replayed=(
        ("clip_cov", "it picks tokens at random among those of high covariance"),
        ("kl_cov", "it sorts the tokens of a micro-batch by covariance, and a dump has no micro-batches"),
    ),
)
