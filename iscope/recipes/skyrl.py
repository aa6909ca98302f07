"""SkyRL's off-policy corrections, ``trainer.algorithm.off_policy_correction`` at commit a9564572."""

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
    Reduction,
    Ref,
    WeightRule,
    by_option,
)
from iscope.recipes.skyrl_losses import CONSTRAINTS, LOSS_OPTIONS, LOSSES, RATIO_LIMITS, UNCORRECTED

_SUM_LIMITS = LogClamp(low=-20.0, high=20.0, of="sum", float32=True)

_TIS_TYPE = Option(
    name="tis_ratio_type",
    short="ratio_type",
    kind="choice",
    default="token",
    doc="What the weight is of: each token's ratio, or the product over the rollout.",
    choices=("token", "sequence"),
)
_METRIC = Option(
    name="sequence_mask_metric",
    short="mask_metric",
    kind="choice",
    default=None,
    doc="Which ratio of a rollout is tested: the geometric mean of its tokens' or their product; none tests neither.",
    choices=("geometric", "product"),
    nullable=True,
)


def _number(name: str, short: str, default: float | None, doc: str) -> Option:
    return Option(name, short, "float", default, doc, nullable=default is None)


_CAPS = (
    _number("token_tis_ratio_clip_high", "token_clip", 2.0, "With ratio_type=token, the upper truncation of it."),
    _number("sequence_tis_ratio_clip_high", "seq_clip", 5.0, "With ratio_type=sequence, the upper truncation of it."),
)
_GEO = (
    _number("geo_mask_low", "geo_mask_low", 0.99, "Lower bound of exp(G), inclusive."),
    _number("geo_mask_high", "geo_mask_high", 1.01, "Upper bound of exp(G), inclusive."),
)
_PRODUCT = (
    _number("product_mask_low", "product_mask_low", 0.5, "Lower bound of exp(S), inclusive."),
    _number("product_mask_high", "product_mask_high", 2.0, "Upper bound of exp(S), inclusive."),
)
_OUTLIER = (
    _number(
        "outlier_token_is_threshold_low",
        "outlier_low",
        None,
        "A rollout with a token whose ratio is below it is rejected; none is no bound.",
    ),
    _number(
        "outlier_token_is_threshold_high",
        "outlier_high",
        None,
        "A rollout with a token whose ratio is above it is rejected; none is no bound.",
    ),
)
_TOKEN = (
    _number("token_mask_is_threshold_low", "token_low", None, "Lower bound of r_t, inclusive; SkyRL needs both."),
    _number("token_mask_is_threshold_high", "token_high", None, "Upper bound of r_t, inclusive; SkyRL needs both."),
)

_OUTLIER_FILTER = Filter(
    "outlier", low=Ref("outlier_low"), high=Ref("outlier_high"), acts_on="rollout", clamp=RATIO_LIMITS
)
# A mask with one bound only is no mask.
_TOKEN_FILTER = by_option(
    "token_low",
    (None, None),
    otherwise=by_option(
        "token_high",
        (None, None),
        otherwise=Filter(
            "token_mask",
            low=Ref("token_low"),
            high=Ref("token_high"),
            sees="survivors",
            nan_kept=False,
            clamp=RATIO_LIMITS,
        ),
    ),
)
_GEO_FILTER = Filter(
    "geometric",
    reduction=Reduction.MEAN,
    low=Ref("geo_mask_low"),
    high=Ref("geo_mask_high"),
    sees="survivors",
    acts_on="rollout",
    clamp=_SUM_LIMITS,
)
_PRODUCT_FILTER = replace(
    _GEO_FILTER,
    name="product",
    reduction=Reduction.SUM,
    low=Ref("product_mask_low"),
    high=Ref("product_mask_high"),
)
_TOKEN_TIS = WeightRule(Level.TOKEN, clamp=RATIO_LIMITS, high=Ref("token_clip"), sees="survivors")
_SEQUENCE_TIS = WeightRule(Level.SEQUENCE, clamp=_SUM_LIMITS, high=Ref("seq_clip"), sees="survivors")

_R = "r_t = exp(d_t), d_t = trainer_t - inference_t within -20 and 20"
_S = "S = sum_t (trainer_t - inference_t) over the tokens left, within -20 and 20"
_G = "G = S / tokens left, within -20 and 20"

_DENOMINATOR = "What is rejected stays in the loss's denominator: masking shrinks the step, nothing is renormalised."
_IGNORED = (
    f"SkyRL computes the loss types {' and '.join(UNCORRECTED)} without the correction, so they are refused here."
)
_LEFT_OUT = (
    "The loss types clip_cov, which picks tokens at random, and kl_cov, which sorts the micro-batch, and the reduction "
    "token_mean_legacy, which divides by the tokens of each micro-batch, are not replayed: a dump has no micro-batches."
)
_SKIPPED = "Without the inference logprobs SkyRL skips the correction silently."
_EMPTY = "A rollout without loss tokens has ratio 1."
_NEGATIVE = (
    "SkyRL takes a cap below 0: every weight is then that cap, and the gradient points the wrong way. The deprecated "
    "use_tis=True copies a cap of -1 unless tis_imp_ratio_cap is set."
)
_FIRST = "The stages run in this order, and each sees the tokens that those before it left."
_CORRECTED = tuple(
    Constraint("not", ("loss_type",), name, "SkyRL ignores the correction there; take skyrl/none")
    for name in UNCORRECTED
)


def _source(options: tuple[Option, ...]) -> str:
    names = ", ".join(option.name for option in options)
    return f"SkyRL a9564572, trainer.algorithm.off_policy_correction: {names}"


def _set(options: tuple[Option, ...], *defaults: float) -> tuple[Option, ...]:
    """The options with the bounds that make the mode what it is, where SkyRL's own default is off."""
    return tuple(
        replace(option, default=default, doc=option.doc[:-1] + "; SkyRL's own default is none.")
        for option, default in zip(options, defaults, strict=True)
    )


_RECIPES = (
    Recipe(
        name="skyrl/none",
        summary="No correction of the engine mismatch.",
        formula="w_t = 1",
        source="SkyRL a9564572, trainer.algorithm.off_policy_correction with every stage off, its default",
        notes=("The loss types rollout_is and dppo, and cispo_anchor=rollout, correct by themselves.", _LEFT_OUT),
    ),
    Recipe(
        name="skyrl/tis",
        summary="Token or sequence ratio as weight, cut from above.",
        formula=f"{_R}; {_S}\nratio_type=token: w_t = min(r_t, token_clip); sequence: w_t = min(exp(S), seq_clip)",
        source=_source((_TIS_TYPE, *_CAPS)),
        options=(_TIS_TYPE, *_CAPS),
        weight=by_option("ratio_type", ("token", _TOKEN_TIS), ("sequence", _SEQUENCE_TIS)),
        constraints=_CORRECTED,
        notes=(
            _NEGATIVE,
            "There is no lower bound.",
            _SKIPPED,
            _IGNORED,
        ),
    ),
    Recipe(
        name="skyrl/geometric",
        summary="Weight 1; rollouts whose geometric mean ratio lies outside the bounds are rejected.",
        formula=f"{_S}; {_G}\nkeep if geo_mask_low <= exp(G) <= geo_mask_high",
        source=_source((_METRIC, *_GEO)) + " (sequence_mask_metric='geometric')",
        options=_GEO,
        filters=(_GEO_FILTER,),
        constraints=(Constraint("less", ("geo_mask_low", "geo_mask_high")), *_CORRECTED),
        notes=("The default band of 1% is narrower than the noise of short rollouts.", _DENOMINATOR, _EMPTY, _IGNORED),
    ),
    Recipe(
        name="skyrl/product",
        summary="Weight 1; rollouts whose product of ratios lies outside the bounds are rejected.",
        formula=f"{_S}\nkeep if product_mask_low <= exp(S) <= product_mask_high",
        source=_source((_METRIC, *_PRODUCT)) + " (sequence_mask_metric='product')",
        options=_PRODUCT,
        filters=(_PRODUCT_FILTER,),
        constraints=(Constraint("less", ("product_mask_low", "product_mask_high")), *_CORRECTED),
        notes=("A product over the rollout: the longer it is, the further from 1.", _DENOMINATOR, _EMPTY, _IGNORED),
    ),
    Recipe(
        name="skyrl/outlier",
        summary="Weight 1; rollouts with a single token far out are rejected.",
        formula=f"{_R}\nkeep if no token has r_t < outlier_low or r_t > outlier_high",
        source=_source(_OUTLIER),
        options=_set(_OUTLIER, 1e-4, 100.0),
        filters=(_OUTLIER_FILTER,),
        constraints=(
            Constraint("less", ("outlier_low", "outlier_high")),
            Constraint("any", ("outlier_low", "outlier_high")),
            *_CORRECTED,
        ),
        notes=("A longer rollout has more tokens that can be far out.", _DENOMINATOR, _IGNORED),
    ),
    Recipe(
        name="skyrl/token_mask",
        summary="Weight 1; tokens outside the bounds are rejected.",
        formula=f"{_R}\nkeep if token_low <= r_t <= token_high",
        source=_source(_TOKEN),
        options=_set(_TOKEN, 0.5, 2.0),
        filters=(_TOKEN_FILTER,),
        constraints=(Constraint("less", ("token_low", "token_high")), *_CORRECTED),
        notes=("With one bound only SkyRL applies none.", _DENOMINATOR, _IGNORED),
    ),
    Recipe(
        name="skyrl/off_policy_correction",
        summary="Every stage together, each off unless set, in SkyRL's order.",
        formula=f"{_R}; {_S}; {_G}\n"
        "1. keep the rollout if no token has r_t < outlier_low or r_t > outlier_high\n"
        "2. keep the token if token_low <= r_t <= token_high\n"
        "3. ratio_type=token: w_t = min(r_t, token_clip); sequence: w_t = min(exp(S), seq_clip); none: w_t = 1\n"
        "4. mask_metric=geometric: keep the rollout if geo_mask_low <= exp(G) <= geo_mask_high; "
        "product: if product_mask_low <= exp(S) <= product_mask_high",
        source=_source((_TIS_TYPE, *_CAPS, _METRIC, *_GEO, *_PRODUCT, *_OUTLIER, *_TOKEN)),
        options=(
            replace(_TIS_TYPE, default=None, doc=_TIS_TYPE.doc[:-1] + "; none is no weight.", nullable=True),
            *_CAPS,
            _METRIC,
            *_GEO,
            *_PRODUCT,
            *_OUTLIER,
            *_TOKEN,
        ),
        weight=by_option("ratio_type", (None, WeightRule()), ("token", _TOKEN_TIS), ("sequence", _SEQUENCE_TIS)),
        filters=(
            _OUTLIER_FILTER,
            _TOKEN_FILTER,
            by_option("mask_metric", (None, None), ("geometric", _GEO_FILTER), ("product", _PRODUCT_FILTER)),
        ),
        constraints=(
            Constraint("less", ("geo_mask_low", "geo_mask_high")),
            Constraint("less", ("product_mask_low", "product_mask_high")),
            Constraint("less", ("outlier_low", "outlier_high")),
            Constraint("less", ("token_low", "token_high")),
            *_CORRECTED,
        ),
        notes=(_FIRST, _NEGATIVE, _DENOMINATOR, _EMPTY, _SKIPPED, _IGNORED, _LEFT_OUT),
    ),
)

FRAMEWORK = Framework(
    name="skyrl",
    title="SkyRL",
    version="a9564572",
    recipes=_RECIPES,
    loss_options=LOSS_OPTIONS,
    losses=LOSSES,
    constraints=CONSTRAINTS,
    sums=(("limited_ratio", Pair.TRAINER_INFERENCE), ("limited_ratio_sq", Pair.TRAINER_INFERENCE)),
    not_replayed=(
        ("clip_cov", "it picks tokens at random among those of high covariance"),
        ("kl_cov", "it sorts the tokens of a micro-batch by covariance, and a dump has no micro-batches"),
        ("token_mean_legacy", "it divides by the tokens of each micro-batch, and a dump has no micro-batches"),
    ),
)
