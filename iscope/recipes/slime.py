"""slime's corrections of the engine mismatch at commit 624b824a: TIS, IcePop, and MIS of its example ``mis.py``."""

from __future__ import annotations

from typing import Any

from iscope.recipes.model import (
    Constraint,
    Filter,
    Framework,
    Level,
    LogClamp,
    Option,
    Pair,
    Recipe,
    Reduction,
    Ref,
    WeightRule,
    by_option,
)
from iscope.recipes.slime_losses import CONSTRAINTS, LOSS_OPTIONS, LOSSES, OPSM

_LEVELS = ("token", "sequence", "geometric")
_REDUCTIONS = (("token", Reduction.TOKEN), ("sequence", Reduction.SUM), ("geometric", Reduction.MEAN))
# MIS limits what it exponentiates: the log-ratio of a token, or its sum or mean over the rollout.
_LIMITS = {name: LogClamp(-20.0, 20.0, "token" if name == "token" else "sum") for name in _LEVELS}

_TIS_CLIP = Option(
    name="tis_clip",
    short="clip_high",
    kind="float",
    default=2.0,
    doc="Upper bound of r_t.",
    aliases=("clip_max",),
)
_TIS_CLIP_LOW = Option(
    name="tis_clip_low",
    short="clip_low",
    kind="float",
    default=0.0,
    doc="Lower bound of r_t; 0 is no bound.",
    aliases=("clip_min",),
)


def _level(name: str, doc: str) -> Option:
    return Option(name, name, "choice", "token", doc, choices=_LEVELS)


def _number(name: str, default: float | None, doc: str) -> Option:
    return Option(name, name, "float", default, doc, nullable=True)


_MIS_OPTIONS = (
    _level("tis_level", "What the weight is of: r_t, or R of the rollout as a product or as a geometric mean."),
    Option(
        name="tis_mode",
        short="tis_mode",
        kind="choice",
        default="truncate",
        doc="truncate cuts the weight from above, clip from either side, mask rejects what lies outside the bounds.",
        choices=("truncate", "clip", "mask"),
    ),
    Option(
        "tis_lower_bound", "tis_low", "float", 0.5, "Lower bound of clip and mask; none is 1 / tis_high.", nullable=True
    ),
    Option("tis_upper_bound", "tis_high", "float", 2.0, "Upper bound of the weight."),
    Option("use_rs", "use_rs", "bool", True, "Reject what lies outside rs_lower_bound and rs_upper_bound too."),
    _level("rs_level", "With use_rs, what is tested: r_t, or R of the rollout as a product or as a geometric mean."),
    _number("rs_lower_bound", None, "With use_rs, the lower bound, inclusive; none is that of the weight."),
    _number("rs_upper_bound", None, "With use_rs, the upper bound, inclusive; none is tis_high."),
    _number("rs_veto_threshold", 1e-4, "With use_rs, a rollout with a token whose ratio is below it is rejected."),
    Option("tis_batch_normalize", "tis_batch_normalize", "bool", True, "Divide the weights by the mean of the batch."),
    Option("use_tis", "use_tis", "bool", True, "False corrects nothing, but logs the metrics of the mismatch."),
)
_TIS_LOW = Ref("tis_low", otherwise=Ref("tis_high", reciprocal=True))
_TIS_HIGH = Ref("tis_high")

_MIS_WEIGHT = WeightRule(
    Ref("tis_level"),
    clamp=by_option("tis_level", *_LIMITS.items()),
    low=by_option("tis_mode", ("truncate", None), ("clip", _TIS_LOW), ("mask", None)),
    high=by_option("tis_mode", ("truncate", _TIS_HIGH), ("clip", _TIS_HIGH), ("mask", None)),
    normalise=Ref("tis_batch_normalize"),
    counts_empty=True,
    logged=True,
)
_MIS_MASK = Filter(
    "mis_mask",
    reduction=by_option("tis_level", *_REDUCTIONS),
    low=_TIS_LOW,
    high=_TIS_HIGH,
    clamp=by_option("tis_level", *_LIMITS.items()),
    nan_kept=False,
    masks_penalty=True,
)
_MIS_RS = Filter(
    "rs",
    reduction=by_option("rs_level", *_REDUCTIONS),
    low=Ref("rs_lower_bound", otherwise=_TIS_LOW),
    high=Ref("rs_upper_bound", otherwise="tis_high"),
    clamp=by_option("rs_level", *_LIMITS.items()),
    nan_kept=False,
    masks_penalty=True,
)
_MIS_VETO = Filter(
    "veto",
    low=Ref("rs_veto_threshold"),
    space="log",
    acts_on="rollout",
    masks_penalty=True,
    logged=True,
)

_D = "d_t = trainer_t - inference_t"
_FROZEN = "The weight is a constant beside the loss's own ratio, current over trainer, which never sees the mismatch."
_ALWAYS = (
    "slime runs it whenever it logs mismatch metrics too (get_mismatch_metrics with this custom_tis_function_path), "
    "use_tis or not."
)
_MICRO_BATCH = (
    "The mean weight of tis_batch_normalize is that of slime's micro-batch; here it is that of the batch, whose scope "
    "therefore matters."
)
_SAMPLES = "A rollout is one sample: slime's mean over rollouts pools the samples that share a rollout_id."
_UNLOGGED = "loss, pg_loss, kl_loss and entropy_loss are not among the metrics: they are values of the loss itself."


def _with_tis(part: Any) -> Any:
    return by_option("use_tis", (False, None), (True, part))


def _source(function: str, options: tuple[Option, ...]) -> str:
    return f"slime 624b824a, {function}: {', '.join(option.name for option in options)}"


_RECIPES = (
    Recipe(
        name="slime/none",
        summary="No correction of the engine mismatch.",
        formula="w_t = 1",
        source="slime 624b824a, without use_tis, its default",
        filters=(OPSM,),
        notes=(_SAMPLES, _UNLOGGED),
    ),
    Recipe(
        name="slime/tis",
        summary="Token ratio as weight, cut to the bounds.",
        formula=f"{_D}; r_t = exp(d_t)\nw_t = min(max(r_t, clip_low), clip_high)",
        source=_source("use_tis, vanilla_tis_function", (_TIS_CLIP_LOW, _TIS_CLIP)),
        options=(_TIS_CLIP_LOW, _TIS_CLIP),
        weight=WeightRule(Level.TOKEN, low=Ref("clip_low"), high=Ref("clip_high")),
        filters=(OPSM,),
        constraints=(Constraint("positive", ("clip_high",)), Constraint("at_most", ("clip_low", "clip_high"))),
        notes=(_FROZEN, _SAMPLES, _UNLOGGED),
    ),
    Recipe(
        name="slime/icepop",
        summary="Token ratio as weight; tokens outside the bounds get weight 0.",
        formula=f"{_D}; r_t = exp(d_t)\nw_t = r_t if clip_low <= r_t <= clip_high, else 0",
        source=_source("use_tis, custom_tis_function_path=icepop_function", (_TIS_CLIP_LOW, _TIS_CLIP)),
        options=(_TIS_CLIP_LOW, _TIS_CLIP),
        weight=WeightRule(Level.TOKEN),
        filters=(Filter("icepop", low=Ref("clip_low"), high=Ref("clip_high"), nan_kept=False), OPSM),
        constraints=(Constraint("positive", ("clip_high",)), Constraint("at_most", ("clip_low", "clip_high"))),
        notes=(
            "What is rejected stays in the loss's denominator and keeps its KL term.",
            "Without clip_low there is no lower bound; elsewhere IcePop's band is 0.5 to 5.",
            _ALWAYS,
            _FROZEN,
            _SAMPLES,
            _UNLOGGED,
        ),
    ),
    Recipe(
        name="slime/mis",
        summary="Weight at a chosen level, cut or masked; rejection and a veto on top; normalised.",
        formula=f"use_tis, and {_D}; level token: R = exp(d_t); sequence: exp(sum d_t); geometric: exp(mean d_t); each "
        "exponent within -20 and 20\n"
        "w = R of tis_level; tis_mode truncate: min(w, tis_high); clip: "
        "min(max(w, tis_low), tis_high); mask: w, kept if tis_low <= w <= tis_high\n"
        "use_rs: keep if rs_lower_bound <= R of rs_level <= rs_upper_bound, and no token of the rollout has "
        "exp(d_t) < rs_veto_threshold\n"
        "tis_batch_normalize: w divided by its mean over all tokens (token) or rollouts (sequence), rejected ones too",
        source=_source("mis.py and mis.yaml of the example train_infer_mismatch_helper", _MIS_OPTIONS),
        options=_MIS_OPTIONS,
        weight=by_option("use_tis", (False, WeightRule()), (True, _MIS_WEIGHT)),
        filters=(
            _with_tis(by_option("tis_mode", ("truncate", None), ("clip", None), ("mask", _MIS_MASK))),
            _with_tis(by_option("use_rs", (False, None), (True, _MIS_RS))),
            _with_tis(by_option("use_rs", (False, None), (True, _MIS_VETO))),
            OPSM,
        ),
        constraints=(
            Constraint("positive", ("tis_high",)),
            Constraint("less", ("tis_low", "tis_high")),
            Constraint("positive", ("rs_veto_threshold",)),
            Constraint("not", ("tis_level",), "geometric", when=("tis_batch_normalize", True)),
        ),
        notes=(
            "What is rejected leaves the loss and its KL term but stays in the denominators: masking shrinks the step.",
            "The mean weight counts rejected tokens and rollouts, and in the mode mask their weights uncut.",
            "The veto works with use_rs only.",
            _MICRO_BATCH,
            _FROZEN,
            _SAMPLES,
            _UNLOGGED,
        ),
    ),
)

FRAMEWORK = Framework(
    name="slime",
    title="slime",
    version="624b824a",
    recipes=_RECIPES,
    loss_options=LOSS_OPTIONS,
    losses=LOSSES,
    constraints=CONSTRAINTS,
    sums=(
        ("abs_excess", Pair.TRAINER_INFERENCE),
        ("limited_ratio", Pair.TRAINER_INFERENCE),
        ("limited_ratio_sq", Pair.TRAINER_INFERENCE),
    ),
)
