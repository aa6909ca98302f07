"""open-instruct's rho correction and its losses, ``grpo_utils.py`` of open-instruct (git e6c3044aa)."""

from __future__ import annotations

from iscope.recipes.losses import Aggregation, Denominator, Loss, Penalty
from iscope.recipes.model import Constraint, Filter, Framework, Level, LogClamp, Option, Pair, Quantity, Recipe, Ref
from iscope.recipes.rules import Reduction, WeightRule, by_option

_CLAMP = LogClamp(-10.0, 10.0)
_SEQUENCE, _TV = "sequence_level", "tv_divergence"
# With use_vllm_logprobs the engine's logprobs stand for the old policy's.
_RATIO: Pair = by_option("use_vllm_logprobs", (False, Pair.CURRENT_TRAINER), (True, Pair.CURRENT_INFERENCE))
_ESTIMATOR = by_option("kl_estimator", ("0", "k1"), ("1", "k2"), ("2", "k3"), ("3", "k1"))
_KL_WEIGHT = by_option("kl_estimator", ("0", None), ("1", None), ("2", None), ("3", _RATIO))

_LOSS = Loss(
    type=by_option("loss_fn", ("dapo", "clipped_surrogate"), ("cispo", "cispo")),
    low=by_option("loss_fn", ("dapo", Ref("clip_lower", scale=-1.0, offset=1.0)), ("cispo", None)),
    high=Ref("clip_higher", offset=1.0),
    pair=_RATIO,
    penalty=Penalty(_ESTIMATOR, Pair.CURRENT_REF, Ref("beta"), weight=_KL_WEIGHT, input_clamp=40.0),
    aggregation=Aggregation.TOKEN_MEAN,
    denominator=Denominator(batch_tokens=Ref("loss_denominator")),
)

_RHO = "rho_t = exp(d_t), d_t = trainer_t - inference_t kept within 10 of 0"
_FROZEN = "The weight is constant: the loss's own ratio, current over trainer, carries the gradient."
_DENOMINATOR = "What is dropped stays in the loss's denominator."
_UNREACHED = (
    "With tv_divergence the same bounds, mask_upper above 1, are of a mean distance from 1: mask_lower then drops "
    "tokens of the rollouts that are closest to on-policy."
)
_ROW = (
    "With rho_mask_sequence_level or rho_mask_tv_divergence open-instruct averages over a row, into which it packs "
    "several responses; here over each rollout, as if every row held one."
)


def _bound(end: str, kind: str, default: float | None, doc: str) -> Option:
    name = f"rho_{kind}_{end}_bound"
    return Option(name, name.removeprefix("rho_").removesuffix("_bound"), "float", default, doc, nullable=True)


_CLAMPS = (
    _bound("lower", "clamp", None, "Lower truncation of the weight; none is open-instruct's 0, off."),
    _bound("upper", "clamp", 2.0, "Upper truncation of the weight; none is open-instruct's 0, off."),
)
_MASKS = (
    _bound("lower", "mask", None, "Lower bound of what is kept, inclusive; none is open-instruct's 0, off."),
    _bound("upper", "mask", None, "Upper bound of what is kept, inclusive; none is open-instruct's 0, off."),
)
_SEQUENCE_LEVEL = Option(
    name="rho_mask_sequence_level",
    short=_SEQUENCE,
    kind="bool",
    default=False,
    doc="Weight and mask take exp of the rollout's mean d_t in place of each token's rho_t.",
)
_TV_DIVERGENCE = Option(
    name="rho_mask_tv_divergence",
    short=_TV,
    kind="bool",
    default=False,
    doc="The mask bounds are of the rollout's mean abs(rho_t - 1), and reject only tokens whose d_t has the sign of A.",
)
_SOURCE = (
    "open-instruct git e6c3044aa, GRPOExperimentConfig: use_rho_correction=True, rho_clamp_lower_bound, "
    "rho_clamp_upper_bound, rho_mask_lower_bound, rho_mask_upper_bound, rho_mask_sequence_level, rho_mask_tv_divergence"
)
_LEVEL = by_option(_SEQUENCE, (False, Level.TOKEN), (True, Level.GEOMETRIC))
_OVER = by_option(_SEQUENCE, (False, Reduction.TOKEN), (True, Reduction.MEAN))
_ACTS_ON = by_option(_SEQUENCE, (False, "token"), (True, "rollout"))
_WEIGHT = WeightRule(_LEVEL, clamp=_CLAMP, low=Ref("clamp_lower"), high=Ref("clamp_upper"))
_POSITIVE = tuple(
    Constraint("positive", (name,), remedy="write none for open-instruct's 0")
    for name in ("clamp_lower", "clamp_upper", "mask_lower", "mask_upper")
)
_ORDERED = Constraint("at_most", ("clamp_lower", "clamp_upper"))
_ONE_OLD = Constraint("not", ("use_vllm_logprobs",), True, "open-instruct takes it without a correction only")
_VALID = Constraint("above_one", ("mask_upper",))

_NONE = Recipe(
    name="open-instruct/none",
    summary="No correction of the engine mismatch.",
    formula="w_t = 1",
    source="open-instruct git e6c3044aa, GRPOExperimentConfig: use_rho_correction=False",
    notes=("The trainer's own ratio, current over trainer, still applies inside the loss.",),
)
_BAND = Filter(
    "rho_mask", reduction=_OVER, low=Ref("mask_lower"), high=Ref("mask_upper"), acts_on=_ACTS_ON, clamp=_CLAMP
)
_DIVERGENCE = Filter(
    "tv_divergence",
    Quantity.ABS_EXCESS,
    Reduction.MEAN,
    low=Ref("mask_lower"),
    high=Ref("mask_upper"),
    space="plain",
    clamp=_CLAMP,
    pushed_only=True,
)
_CORRECTION = Recipe(
    name="open-instruct/rho",
    summary="Ratio as weight, cut to the clamp bounds; what lies outside the mask bounds gets 0.",
    formula=f"{_RHO}\nrho = rho_t, or exp(mean of d_t) with sequence_level\n"
    "w_t = min(max(rho, clamp_lower), clamp_upper) if mask_lower <= rho <= mask_upper, else 0\n"
    "with tv_divergence: 0 if the mean of abs(rho_t - 1) lies outside the mask bounds and d_t A > 0",
    source=_SOURCE,
    options=(*_CLAMPS, *_MASKS, _SEQUENCE_LEVEL, _TV_DIVERGENCE),
    weight=_WEIGHT,
    filters=(by_option(_TV, (False, _BAND), (True, _DIVERGENCE)),),
    constraints=(*_POSITIVE, _ORDERED, _VALID, Constraint("less", ("mask_lower", "mask_upper")), _ONE_OLD),
    notes=("This is the correction open-instruct runs unless told otherwise.", _FROZEN, _DENOMINATOR, _ROW, _UNREACHED),
)

FRAMEWORK = Framework(
    name="open-instruct",
    title="open-instruct",
    version="git e6c3044aa",
    recipes=(_NONE, _CORRECTION),
    loss_options=(
        Option(
            name="loss_fn",
            short="loss_fn",
            kind="choice",
            default="dapo",
            doc="dapo: PPO's clipped surrogate. cispo: the ratio, cut at 1 + clip_higher, as a constant weight.",
            choices=("dapo", "cispo"),
        ),
        Option("clip_lower", "clip_lower", "float", 0.2, "Below 1 - clip_lower a token with A < 0 has no gradient."),
        Option("clip_higher", "clip_higher", "float", 0.272, "Above 1 + clip_higher a token with A > 0 has none."),
        Option(
            name="use_vllm_logprobs",
            short="use_vllm_logprobs",
            kind="bool",
            default=False,
            doc="The engine's logprobs stand for the old policy's: the ratio of the loss is current over inference.",
        ),
        Option(
            name="beta",
            short="beta",
            kind="float",
            default=0.0,
            doc="Factor of the KL term to the reference, which no importance weight touches. open-instruct's default "
            "is 0.05 where it loads a reference (load_ref_policy).",
        ),
        Option(
            name="kl_estimator",
            short="kl_estimator",
            kind="choice",
            default="2",
            doc="Estimator of the KL term, of u = current - reference: 0 is u, 1 u^2 / 2, 2 exp(-u) - 1 + u, 3 r u.",
            choices=("0", "1", "2", "3"),
        ),
        Option(
            name="loss_denominator",
            short="loss_denominator",
            kind="float",
            default=None,
            doc="What the batch's sum is divided by; none is open-instruct's token: its loss tokens.",
            nullable=True,
        ),
    ),
    losses=(("", _LOSS),),
    constraints=(Constraint("positive", ("loss_denominator",)),),
    sums=(("inference_weighted", Pair.CURRENT_INFERENCE),),
)
