"""TRL's corrections of the vLLM mismatch, ``GRPOTrainer`` of TRL 1.16.0."""

from __future__ import annotations

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
    Signs,
    WeightRule,
)
from iscope.recipes.trl_losses import CONSTRAINTS, LOSS_OPTIONS, LOSSES

_CLIP_MIN = Option(
    name="vllm_importance_sampling_clip_min",
    short="clip_min",
    kind="float",
    default=None,
    doc="Lower bound of the ratio; none is no bound.",
    aliases=("vllm_importance_sampling_min", "min"),
    nullable=True,
)
_CLIP_MAX = Option(
    name="vllm_importance_sampling_clip_max",
    short="clip_max",
    kind="float",
    default=3.0,
    doc="Upper bound of the ratio; none is no bound. TRL's deprecated name for it is vllm_importance_sampling_cap.",
    aliases=("vllm_importance_sampling_cap", "cap", "vllm_importance_sampling_max", "max"),
    nullable=True,
)
_BOUNDS = (_CLIP_MIN, _CLIP_MAX)
_LOW, _HIGH = Ref("clip_min"), Ref("clip_max")
_ORDERED = Constraint("less", ("clip_min", "clip_max"))
_RATIOS = Constraint("not_negative", ("clip_min", "clip_max"), remedy="bounds are ratios, not their logs")
_SOME_BOUND = Constraint("any", ("clip_min", "clip_max"))
_NO_VESPO = Constraint("not", ("loss_type",), "vespo", "TRL takes it with token_mask and token_truncate only")

OFF_POLICY_MASK = "off_policy_mask"
# Off-policy sequence masking, whatever the correction; the KL term stays.
_OPSM = Filter(
    OFF_POLICY_MASK,
    Quantity.K1,
    Reduction.MEAN,
    high=Ref("off_policy_mask_threshold"),
    pair=Pair.CURRENT_INFERENCE,
    space="plain",
    high_signs=Signs.NEGATIVE,
    acts_on="rollout",
)

_TOKEN_RATIO = "rho_t = exp(trainer_t - inference_t)"
_SEQUENCE_RATIO = "rho = exp(sum_t (trainer_t - inference_t)), over the rollout's loss tokens"

_FROZEN = (
    "The weight is computed once per generation batch and then frozen. The ratio inside the loss is current over "
    "trainer, so its clipping never sees the mismatch."
)
_UNSCORED = "A token that vLLM could not score counts as ratio 1: it trains uncorrected and is not dropped."
_PRODUCT = (
    "The ratio is a product over the whole rollout, without length normalisation: on the same mismatch per token, a "
    "longer rollout lies further from 1."
)
_NEAR_ZERO = (
    "With clip_min=none a rollout whose ratio is nearly 0 keeps that weight: it trains almost nothing, yet it counts "
    "as untouched."
)
_DENOMINATOR = "What is rejected stays in the loss's denominator: masking shrinks the step, nothing is renormalised."
_KEPT_RATIO = "What is kept keeps its ratio as weight; TRL has no mode that only filters."
_LOGGED = (
    "sampling/importance_sampling_ratio is logged after masking: its min is 0 as soon as anything is rejected, and "
    "its max never exceeds clip_max."
)
_PER_ROLLOUT = (
    "sampling/importance_sampling_ratio is logged per rollout here, per token in the token modes; a rollout without "
    "loss tokens enters it as 1."
)
_DEFAULT_MODE = "This is the mode TRL runs unless told otherwise; parts of its documentation name truncation instead."
_HISTORY = "Before TRL 1.6.0 no mode had a lower bound; before 0.26 this was the only mode, with an upper bound of 2."


def _source(setting: str) -> str:
    return f"TRL 1.16.0, GRPOConfig: use_vllm=True, {setting}"


def _mode(mode: str) -> str:
    return _source(
        f"vllm_importance_sampling_correction=True, vllm_importance_sampling_mode={mode!r}, "
        "vllm_importance_sampling_clip_min, vllm_importance_sampling_clip_max"
    )


_RECIPES = (
    Recipe(
        name="trl/none",
        summary="No correction of the engine mismatch.",
        formula="w_t = 1",
        source=_source("vllm_importance_sampling_correction=False"),
        filters=(_OPSM,),
        notes=("The trainer's own ratio, current over trainer, still applies inside the loss.",),
    ),
    Recipe(
        name="trl/token_truncate",
        summary="Token ratio as weight, cut to the bounds.",
        formula=f"{_TOKEN_RATIO}\nw_t = min(max(rho_t, clip_min), clip_max)",
        source=_mode("token_truncate"),
        options=_BOUNDS,
        weight=WeightRule(Level.TOKEN, low=_LOW, high=_HIGH),
        filters=(_OPSM,),
        constraints=(_ORDERED, _RATIOS, _SOME_BOUND),
        notes=(_FROZEN, _UNSCORED, _HISTORY),
    ),
    Recipe(
        name="trl/token_mask",
        summary="Token ratio as weight; tokens outside the bounds get weight 0.",
        formula=f"{_TOKEN_RATIO}\nw_t = rho_t if clip_min <= rho_t <= clip_max, else 0",
        source=_mode("token_mask"),
        options=_BOUNDS,
        weight=WeightRule(Level.TOKEN),
        filters=(Filter("token_mask", low=_LOW, high=_HIGH), _OPSM),
        constraints=(_ORDERED, _RATIOS),
        notes=(_KEPT_RATIO, _DENOMINATOR, _LOGGED, _FROZEN, _UNSCORED),
    ),
    Recipe(
        name="trl/sequence_truncate",
        summary="Product of the rollout's token ratios as weight, cut to the bounds.",
        formula=f"{_SEQUENCE_RATIO}\nw_t = min(max(rho, clip_min), clip_max)",
        source=_mode("sequence_truncate"),
        options=_BOUNDS,
        weight=WeightRule(Level.SEQUENCE, low=_LOW, high=_HIGH),
        filters=(_OPSM,),
        constraints=(_ORDERED, _RATIOS, _SOME_BOUND, _NO_VESPO),
        notes=(_PRODUCT, _NEAR_ZERO, _PER_ROLLOUT, _FROZEN, _UNSCORED),
    ),
    Recipe(
        name="trl/sequence_mask",
        summary="Product of the rollout's token ratios as weight; rollouts outside the bounds get weight 0.",
        formula=f"{_SEQUENCE_RATIO}\nw_t = rho if clip_min <= rho <= clip_max, else 0",
        source=_mode("sequence_mask"),
        options=_BOUNDS,
        weight=WeightRule(Level.SEQUENCE),
        filters=(Filter("sequence_mask", reduction=Reduction.SUM, low=_LOW, high=_HIGH, acts_on="rollout"), _OPSM),
        constraints=(_ORDERED, _RATIOS, _NO_VESPO),
        notes=(
            _DEFAULT_MODE,
            _PRODUCT,
            _NEAR_ZERO,
            _KEPT_RATIO,
            _DENOMINATOR,
            _LOGGED,
            _PER_ROLLOUT,
            _FROZEN,
            _UNSCORED,
        ),
    ),
)

FRAMEWORK = Framework(
    name="trl",
    title="TRL",
    version="1.16.0",
    recipes=_RECIPES,
    loss_options=LOSS_OPTIONS,
    losses=LOSSES,
    constraints=CONSTRAINTS,
    not_replayed=(("top_entropy_quantile", "it needs the entropy of each token's distribution, which no dump holds"),),
)
