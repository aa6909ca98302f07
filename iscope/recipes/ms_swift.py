"""ms-swift's corrections of the vLLM mismatch, ``rollout_importance_sampling_mode`` of ms-swift 4.6.0."""

from __future__ import annotations

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
)
from iscope.recipes.ms_swift_losses import CONSTRAINTS, LOSS_OPTIONS, LOSSES, OFF_POLICY

_THRESHOLD = Option(
    name="rollout_importance_sampling_threshold",
    short="threshold",
    kind="float",
    default=2.0,
    doc="Upper bound of the ratio, inclusive; ms-swift has no lower bound.",
    aliases=("clip_max",),
)
_HIGH = Ref("threshold")
# ms-swift limits the log-ratio of each token before anything else.
_LIMITS = LogClamp(low=-20.0, high=20.0)

_TOKEN_RATIO = "rho_t = exp(trainer_t - inference_t), the exponent within -20 and 20"
_MEAN_RATIO = f"{_TOKEN_RATIO}; g = exp(mean of log rho_t over the rollout's loss tokens)"

_KL_TOO = "The weight multiplies the KL term as well: what is rejected has none, what weighs little hardly any."
_FROZEN = "The weight is constant: the loss's own ratio, current over trainer, carries the gradient."
_DENOMINATOR = "What is rejected stays in the loss's denominator: masking shrinks the step, nothing is renormalised."
_UPPER_ONLY = "There is no lower bound: a ratio near 0 keeps its weight, and trains almost nothing."
_MEAN = "g is a geometric mean, which seldom leaves 2 whatever the length; elsewhere sequence modes take the product."
_ESS = (
    "rollout_correction/ess takes every weight within 1/threshold and threshold: a rejected token counts as the former."
)
_BATCH = (
    "Metrics are those of one micro-batch on one rank, taken to be the whole dump: ms-swift averages the means of its "
    "micro-batches."
)
_NOT_REPLAYED = (
    "loss_type=real ignores the importance weights. "
    "top_entropy_quantile needs the entropy of the whole vocabulary, and overlong_filter, where on, must already be in "
    "the loss mask."
)


def _source(mode: str) -> str:
    return f"ms-swift 4.6.0, rollout_importance_sampling_mode: {mode}; rollout_importance_sampling_threshold"


_RECIPES = (
    Recipe(
        name="ms-swift/none",
        summary="No correction of the vLLM mismatch.",
        formula="w_t = 1",
        source="ms-swift 4.6.0, rollout_importance_sampling_mode=None, the default",
        filters=(OFF_POLICY,),
        notes=(
            "The trainer's own ratio, current over trainer, still applies inside the loss.",
            "A run without a correction logs rollout_correction/* only with log_rollout_offpolicy_metrics.",
            _BATCH,
            _NOT_REPLAYED,
        ),
    ),
    Recipe(
        name="ms-swift/token_truncate",
        summary="Token ratio as weight, cut from above.",
        formula=f"{_TOKEN_RATIO}\nw_t = min(rho_t, threshold)",
        source=_source("token_truncate"),
        options=(_THRESHOLD,),
        weight=WeightRule(Level.TOKEN, clamp=_LIMITS, high=_HIGH, logged=True, cut_logged=True),
        filters=(OFF_POLICY,),
        constraints=(Constraint("positive", ("threshold",)),),
        notes=(_UPPER_ONLY, _KL_TOO, _FROZEN, _BATCH, _NOT_REPLAYED),
    ),
    Recipe(
        name="ms-swift/token_mask",
        summary="Token ratio as weight; tokens above the bound get weight 0.",
        formula=f"{_TOKEN_RATIO}\nw_t = rho_t if rho_t <= threshold, else 0",
        source=_source("token_mask"),
        options=(_THRESHOLD,),
        weight=WeightRule(Level.TOKEN, clamp=_LIMITS, logged=True, cut_logged=True),
        filters=(Filter("token_mask", high=_HIGH, clamp=_LIMITS, nan_kept=False), OFF_POLICY),
        constraints=(Constraint("positive", ("threshold",)),),
        notes=(_UPPER_ONLY, _DENOMINATOR, _KL_TOO, _ESS, _FROZEN, _BATCH, _NOT_REPLAYED),
    ),
    Recipe(
        name="ms-swift/sequence_truncate",
        summary="Geometric mean of the rollout's token ratios as weight, cut from above.",
        formula=f"{_MEAN_RATIO}\nw_t = min(g, threshold)",
        source=_source("sequence_truncate"),
        options=(_THRESHOLD,),
        weight=WeightRule(Level.GEOMETRIC, clamp=_LIMITS, high=_HIGH, logged=True, cut_logged=True),
        filters=(OFF_POLICY,),
        constraints=(Constraint("positive", ("threshold",)),),
        notes=(_MEAN, _UPPER_ONLY, _KL_TOO, _FROZEN, _BATCH, _NOT_REPLAYED),
    ),
    Recipe(
        name="ms-swift/sequence_mask",
        summary="Token ratio as weight; rollouts whose geometric mean exceeds the bound get weight 0.",
        formula=f"{_MEAN_RATIO}\nw_t = rho_t if g <= threshold, else 0",
        source=_source("sequence_mask"),
        options=(_THRESHOLD,),
        weight=WeightRule(Level.TOKEN, clamp=_LIMITS, logged=True, cut_logged=True),
        filters=(
            Filter(
                "sequence_mask",
                reduction=Reduction.MEAN,
                high=_HIGH,
                clamp=_LIMITS,
                acts_on="rollout",
                nan_kept=False,
            ),
            OFF_POLICY,
        ),
        constraints=(Constraint("positive", ("threshold",)),),
        notes=(
            "What is kept weighs its raw token ratio, which only the limit of e^20 bounds.",
            _MEAN,
            _UPPER_ONLY,
            _DENOMINATOR,
            _KL_TOO,
            _ESS,
            _FROZEN,
            _BATCH,
            _NOT_REPLAYED,
        ),
    ),
)

FRAMEWORK = Framework(
    name="ms-swift",
    title="ms-swift",
    version="4.6.0",
    recipes=_RECIPES,
    loss_options=LOSS_OPTIONS,
    losses=LOSSES,
    constraints=CONSTRAINTS,
    sums=(("limited_k3", Pair.TRAINER_INFERENCE), ("limited_ratio_sq", Pair.TRAINER_INFERENCE)),
    not_replayed=(("top_entropy_quantile", "it needs the entropy of each token's distribution, which no dump holds"),),
)
