"""OpenRLHF's corrections of the vLLM mismatch and its losses, ``PolicyLoss`` of OpenRLHF 0.11.2."""

from __future__ import annotations

from iscope.recipes.losses import Aggregation, Denominator, Loss
from iscope.recipes.model import (
    Constraint,
    Filter,
    Framework,
    Level,
    LogClamp,
    Option,
    Pair,
    Quantity,
    Recipe,
    Reduction,
    Ref,
)
from iscope.recipes.rules import WeightRule, by_option

_LOW, _HIGH, _DELTA = Ref("low"), Ref("high"), Ref("delta")

_MEANS = by_option("token_level_loss", (True, Aggregation.TOKEN_MEAN), (False, Aggregation.SEQ_MEAN_TOKEN_MEAN))
_FILLED = Denominator(counts="filled", count_epsilon=1e-8)
_CLIPPED = Loss(
    "clipped_surrogate",
    low=Ref("clip_eps_low", scale=-1.0, offset=1.0),
    high=Ref("clip_eps_high", offset=1.0),
    dual=Ref("dual_clip"),
    level=by_option("policy_loss_type", ("ppo", "token"), ("gspo", "sequence")),
    clamp=by_option("policy_loss_type", ("ppo", LogClamp(-20.0, 20.0)), ("gspo", None)),
    aggregation=by_option("policy_loss_type", ("ppo", _MEANS), ("gspo", Aggregation.SEQ_MEAN_TOKEN_MEAN)),
    denominator=_FILLED,
)
# The correction of gspo: its one ratio is current over inference.
_GSPO_LOSS = Loss(
    "clipped_weight",
    low=_CLIPPED.low,
    high=_CLIPPED.high,
    dual=_CLIPPED.dual,
    level="sequence",
    aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN,
    denominator=_FILLED,
)

_RATIO = "rho_t = exp(trainer_t - inference_t)"
_PROBABILITIES = "p_t = exp(trainer_t), q_t = exp(inference_t)"
_KL = (
    f"{_RATIO}; {_PROBABILITIES}, kept 1e-6 from 0 and 1\n"
    "kl_t = q_t log(q_t / p_t) + (1 - q_t) log((1 - q_t) / (1 - p_t))"
)
_TV = f"{_RATIO}; {_PROBABILITIES}\ntv_t = abs(p_t - q_t)"

_FROZEN = "The weight is constant: the loss's own ratio, current over trainer, carries the gradient."
_DENOMINATOR = "What is rejected stays in the loss's denominator."
_RAW = "What is kept weighs its raw token ratio, which nothing bounds."
_EMPTY = "A rollout without loss tokens counts as rejected in is_filter_ratio."
_APART = "The trainer's KL and entropy terms are added outside this loss and are not replayed."
_RARE = "A difference of probabilities never rejects a rare token, however far its ratio is from 1."
_NO_GSPO = Constraint(
    "not", ("policy_loss_type",), "gspo", "there OpenRLHF ignores mode, gating and threshold: see openrlhf/gspo"
)


def _source(level: str, mode: str, gating: str) -> str:
    threshold = (
        "is_correction_threshold=LOW HIGH (here is_correction_threshold_low and is_correction_threshold_high)"
        if gating == "ratio"
        else "is_correction_threshold=HIGH"
    )
    return (
        f"OpenRLHF 0.11.2, algo.advantage: is_correction_level={level}, is_correction_mode={mode}, "
        f"is_correction_gating={gating}, {threshold}"
    )


def _bounds(low: float, high: float, doc: str) -> tuple[Option, Option]:
    return (
        Option(
            "is_correction_threshold_low", "low", "float", low, f"Lower bound of {doc}; a single bound leaves it 0."
        ),
        Option("is_correction_threshold_high", "high", "float", high, f"Upper bound of {doc}."),
    )


def _delta(default: float, doc: str) -> tuple[Option]:
    return (Option("is_correction_threshold", "delta", "float", default, doc),)


_ORDERED = Constraint("at_most", ("low", "high"))
_TOKEN = WeightRule(Level.TOKEN)


def _seq_filter(name: str, quantity: Quantity) -> Filter:
    return Filter(name, quantity, Reduction.MEAN, high=_DELTA, space="plain", acts_on="rollout", nan_kept=False)


def _token_filter(name: str, quantity: Quantity) -> Filter:
    return Filter(name, quantity, high=_DELTA, space="plain", nan_kept=False)


_RATIO_ROWS = (
    Recipe(
        name="openrlhf/tis",
        summary="Truncated importance sampling: token ratio as weight, cut to the bounds.",
        formula=f"{_RATIO}\nw_t = min(max(rho_t, low), high)",
        source=_source("token", "clip", "ratio"),
        options=_bounds(0.5, 5.0, "the weight"),
        weight=WeightRule(Level.TOKEN, low=_LOW, high=_HIGH),
        constraints=(_ORDERED, _NO_GSPO),
        notes=(_FROZEN, _APART),
    ),
    Recipe(
        name="openrlhf/icepop",
        summary="Token ratio as weight; tokens outside the bounds get 0.",
        formula=f"{_RATIO}\nw_t = rho_t if low <= rho_t <= high, else 0",
        source=_source("token", "mask", "ratio"),
        options=_bounds(0.5, 5.0, "the token ratio, inclusive"),
        weight=_TOKEN,
        filters=(Filter("icepop", low=_LOW, high=_HIGH, nan_kept=False),),
        constraints=(_ORDERED, _NO_GSPO),
        notes=(_DENOMINATOR, _FROZEN, _APART),
    ),
    Recipe(
        name="openrlhf/seq-mask-tis",
        summary="Token ratio as weight; rollouts outside the geometric band get 0.",
        formula=f"{_RATIO}; G = mean of (trainer_t - inference_t) over the rollout's loss tokens\n"
        "w_t = rho_t if low <= exp(G) <= high, else 0",
        source=_source("seq", "mask", "ratio"),
        options=_bounds(0.5, 5.0, "exp(G), inclusive"),
        weight=_TOKEN,
        filters=(
            Filter("seq_mask", reduction=Reduction.MEAN, low=_LOW, high=_HIGH, acts_on="rollout", nan_kept=False),
        ),
        constraints=(_ORDERED, _NO_GSPO),
        notes=(
            _RAW,
            "A mean log-ratio seldom leaves the default band 0.5 to 5.",
            _EMPTY,
            _DENOMINATOR,
            _FROZEN,
            _APART,
        ),
    ),
)

_UPPER = "OpenRLHF's default band is one of ratios and refused here: it must be set."
_GATED_ROWS = (
    Recipe(
        name="openrlhf/token_binary_kl",
        summary="Token ratio as weight; tokens whose binary KL exceeds delta get 0.",
        formula=f"{_KL}\nw_t = rho_t if kl_t <= delta, else 0",
        source=_source("token", "mask", "binary_kl"),
        options=_delta(0.005, f"Largest binary KL of a token that is kept, inclusive, nats. {_UPPER}"),
        weight=_TOKEN,
        filters=(_token_filter("binary_kl", Quantity.BINARY_KL),),
        constraints=(_NO_GSPO,),
        notes=(_RAW, _DENOMINATOR, _FROZEN, _APART),
    ),
    Recipe(
        name="openrlhf/seq_binary_kl",
        summary="Token ratio as weight; rollouts whose mean binary KL exceeds delta get 0 (FlashREINFORCE).",
        formula=f"{_KL}\nw_t = rho_t if the mean of kl_t over the rollout's loss tokens <= delta, else 0",
        source=_source("seq", "mask", "binary_kl"),
        options=_delta(0.005, f"Largest mean binary KL of a rollout that is kept, inclusive, nats. {_UPPER}"),
        weight=_TOKEN,
        filters=(_seq_filter("binary_kl", Quantity.BINARY_KL),),
        constraints=(_NO_GSPO,),
        notes=(_RAW, _EMPTY, _DENOMINATOR, _FROZEN, _APART),
    ),
    Recipe(
        name="openrlhf/token_tv",
        summary="Token ratio as weight; tokens whose probability differs by more than delta get 0.",
        formula=f"{_TV}\nw_t = rho_t if tv_t <= delta, else 0",
        source=_source("token", "mask", "tv"),
        options=_delta(0.05, f"Largest difference of probabilities that is kept, inclusive. {_UPPER}"),
        weight=_TOKEN,
        filters=(_token_filter("tv", Quantity.ABS_PROBABILITY_DIFFERENCE),),
        constraints=(_NO_GSPO,),
        notes=(_RARE, _RAW, _DENOMINATOR, _FROZEN, _APART),
    ),
    Recipe(
        name="openrlhf/seq_tv",
        summary="Token ratio as weight; rollouts whose probabilities differ by more than delta on average get 0.",
        formula=f"{_TV}\nw_t = rho_t if the mean of tv_t over the rollout's loss tokens <= delta, else 0",
        source=_source("seq", "mask", "tv"),
        options=_delta(0.05, f"Largest mean difference of probabilities that is kept, inclusive. {_UPPER}"),
        weight=_TOKEN,
        filters=(_seq_filter("tv", Quantity.ABS_PROBABILITY_DIFFERENCE),),
        constraints=(_NO_GSPO,),
        notes=(_RARE, _RAW, _EMPTY, _DENOMINATOR, _FROZEN, _APART),
    ),
)

_GSPO = Recipe(
    name="openrlhf/gspo",
    summary="GSPO with the correction on: its ratio becomes that of current over inference; no bounds.",
    formula="rho = exp(mean of (current_t - inference_t) over the rollout's loss tokens)\n"
    "loss = -min(rho A, clamp(rho, 1 - clip_eps_low, 1 + clip_eps_high) A), mean over rollouts of their means",
    source="OpenRLHF 0.11.2, policy_loss_type=gspo with any is_correction_level but off",
    weight=WeightRule(Level.GEOMETRIC, Pair.CURRENT_INFERENCE),
    loss=_GSPO_LOSS,
    notes=(
        "is_correction_mode, is_correction_gating and is_correction_threshold have no effect here.",
        "OpenRLHF logs neither vllm_kl nor is_filter_ratio with it.",
        "Without current logprobs the trainer's stand in: the ratio then holds the engine's share only.",
        _APART,
    ),
)

_NONE = Recipe(
    name="openrlhf/none",
    summary="No correction of the vLLM mismatch.",
    formula="w_t = 1",
    source="OpenRLHF 0.11.2, is_correction_level=off, the default",
    notes=("The trainer's own ratio, current over trainer, still applies inside the loss.", _APART),
)

FRAMEWORK = Framework(
    name="openrlhf",
    title="OpenRLHF",
    version="0.11.2",
    recipes=(_NONE, *_RATIO_ROWS, *_GATED_ROWS, _GSPO),
    loss_options=(
        Option(
            name="policy_loss_type",
            short="policy_loss_type",
            kind="choice",
            default="ppo",
            doc="ppo: a ratio for each token. gspo: exp of the rollout's mean log-ratio; always a mean over rollouts.",
            choices=("ppo", "gspo"),
        ),
        Option(
            "clip_eps_low", "clip_eps_low", "float", 0.2, "Below 1 - clip_eps_low a token with A < 0 has no gradient."
        ),
        Option(
            "clip_eps_high",
            "clip_eps_high",
            "float",
            0.2,
            "Above 1 + clip_eps_high a token with A > 0 has no gradient.",
        ),
        Option(
            "dual_clip",
            "dual_clip",
            "float",
            None,
            "Dual clipping: with A < 0 no gradient above dual_clip; none is no bound.",
            nullable=True,
        ),
        Option(
            "token_level_loss",
            "token_level_loss",
            "bool",
            True,
            "The sum is divided by the batch's loss tokens; false takes the mean over the rollouts with loss tokens of "
            "their means.",
        ),
    ),
    losses=(("", _CLIPPED),),
)
