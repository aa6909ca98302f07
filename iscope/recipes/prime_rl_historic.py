"""prime-rl's losses of earlier dates, as ``prime-rl/NAME@DATE``: the same names have meant different rules."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import (
    Constraint,
    Filter,
    Level,
    Loss,
    Option,
    Penalty,
    Quantity,
    Recipe,
    Reduction,
    Ref,
    Signs,
    WeightRule,
)
from iscope.recipes.prime_rl_shared import (
    DENOMINATOR,
    KL,
    KL_TAU,
    MEAN,
    ONE_RATIO,
    PAIR,
    RARE,
    SCORE,
    SUM,
    TAU,
    TOKEN,
    VALUE,
    difference,
    number,
)

_LOSS_FILE = "src/prime_rl/trainer/rl/loss.py"
_AUGUST = f"prime-rl 559b447 (2026-08-21), {_LOSS_FILE}"
_ABLATIONS = f"prime-rl 07a20499a (2026-08-21, branch feat/algo-ablations), {_LOSS_FILE}"

_UNCAPPED = "Neither capped nor constant: one token can hold the whole gradient."
_PACKED = "ratio_type=sequence is not replayed: its sum is divided by packed rows, which no dump holds."
_OWN_RANK = "The sum was divided by the loss tokens of each rank; here by those of the batch."


def _band(low: str, high: str, least: float, most: float, what: str) -> tuple[Option, Option]:
    return (
        number(low, least, f"Lower bound of {what}, inclusive."),
        number(high, most, f"Upper bound of {what}, inclusive."),
    )


def _binary_kl(name: str, quantity: Quantity) -> Filter:
    return Filter(name, quantity, high=Ref("kpop_threshold"), pair=PAIR, space="plain")


def _of_rollout(name: str, reduction: Reduction, low: Ref | None = None, high: Ref | None = None) -> Filter:
    return Filter(name, reduction=reduction, low=low, high=high, pair=PAIR, acts_on="rollout")


_RATIO_BAND = _band("mask_ratio_low", "mask_ratio_high", 0.125, 8.0, "r_t")
_TOKEN_BAND = _band("token_mask_low", "token_mask_high", 0.125, 8.0, "r_t")
_GEO_BAND = _band("geo_mask_low", "geo_mask_high", 0.1, 10.0, "exp(G)")
_SEQUENCE_BAND = _band("sequence_mask_low", "sequence_mask_high", 0.0, 100.0, "the r_t of every token of a rollout")

_PENALISED = Loss("surrogate", advantage_scale=TAU, penalty=KL)

HISTORIC = (
    Recipe(
        name="prime-rl/default@2026-08",
        summary="DPPO: ratio as weight; tokens moved too far in the direction of A get 0; KL term.",
        formula=f"{TOKEN}; p - q = exp(current_t) - exp(inference_t)\n"
        "w_t = 0 if A > 0 and p - q > dppo_mask_high, or A <= 0 and p - q < -dppo_mask_low; else r_t\n"
        "loss = -w_t adv_tau A + kl_tau (log r_t)^2",
        source=f"{_AUGUST}, loss type default (removed 2026-08-27)",
        options=(
            number("dppo_mask_low", 0.2, "Largest fall in probability that is kept where A <= 0, inclusive."),
            number("dppo_mask_high", 0.2, "Largest rise in probability that is kept where A > 0, inclusive."),
            KL_TAU,
        ),
        weight=WeightRule(Level.TOKEN, PAIR),
        filters=(
            Filter(
                "dppo_mask",
                Quantity.PROBABILITY_DIFFERENCE,
                low=Ref("dppo_mask_low", scale=-1.0),
                high=Ref("dppo_mask_high"),
                pair=PAIR,
                space="plain",
                low_signs=Signs.NON_POSITIVE,
                high_signs=Signs.POSITIVE,
            ),
        ),
        loss=_PENALISED,
        notes=(
            "Tokens with A = 0 take the lower test; they count in is_masked but not in is_masked_low.",
            "The bounds are differences of probabilities, not ratios.",
            "The ratio is neither capped nor constant: one token can hold the whole gradient.",
            RARE,
            DENOMINATOR,
            ONE_RATIO,
        ),
    ),
    Recipe(
        name="prime-rl/ipo@2026-08",
        summary="Ratio as weight; tokens whose probability moved more than a limit get 0; KL term.",
        formula=f"{TOKEN}; p - q = exp(current_t) - exp(inference_t)\n"
        "w_t = r_t if |p - q| <= ipo_threshold, else 0\nloss = -w_t adv_tau A + kl_tau (log r_t)^2",
        source=f"{_AUGUST}, loss type ipo",
        options=(number("ipo_threshold", 0.1, "Largest probability difference that is kept, inclusive."), KL_TAU),
        weight=WeightRule(Level.TOKEN, PAIR),
        filters=(difference("ipo", high=Ref("ipo_threshold"), low=Ref("ipo_threshold", scale=-1.0)),),
        loss=_PENALISED,
        notes=(_UNCAPPED, RARE, DENOMINATOR, ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/ref_kl@2026-08",
        summary="Distillation towards the reference, with the KL term of August 2026.",
        formula=f"{TOKEN}\nw_t = r_t if p - q >= -0.2, else 0\nloss = -w_t (ref_t - current_t) + 0.001 (log r_t)^2",
        source=f"{_AUGUST}, ref_kl (fixed constants)",
        weight=WeightRule(Level.TOKEN, PAIR),
        filters=(difference("ref_kl", high=None, low=-0.2),),
        loss=Loss("surrogate", signal="ref", penalty=Penalty("squared", PAIR, 1e-3)),
        notes=("Needs ref_logprobs; the advantage plays no part.", RARE, DENOMINATOR, ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/kpop@2026-08",
        summary="KPop: ratio as weight; tokens whose binary KL exceeds a limit either way get 0; KL term.",
        formula=f"{TOKEN}; p = exp(current_t), q = exp(inference_t), within 1e-6 of 0 and 1\n"
        "KL(a, b) = a log(a/b) + (1 - a) log((1 - a)/(1 - b))\n"
        "w_t = r_t if KL(p, q) <= kpop_threshold and KL(q, p) <= kpop_threshold, else 0\n"
        "loss = -w_t adv_tau A + kl_tau (log r_t)^2",
        source=f"{_ABLATIONS}, loss type kpop; pull requests 3283 and 3381, not merged",
        options=(number("kpop_threshold", 0.1, "Largest binary KL that is kept, either way, nats, inclusive."), KL_TAU),
        weight=WeightRule(Level.TOKEN, PAIR),
        filters=(_binary_kl("kpop", Quantity.BINARY_KL), _binary_kl("kpop_reverse", Quantity.BINARY_KL_REVERSE)),
        loss=_PENALISED,
        notes=("The KL term acts on rejected tokens too.", _UNCAPPED, DENOMINATOR, ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/kimi_k15@2026-08",
        summary="No ratio and no mask: a score surrogate, held to the sampler by a squared log-ratio.",
        formula=f"{TOKEN}; {SUM}\nw_t = 1\nloss = -adv_tau A log pi + tau/2 (log r_t)^2\n"
        "with sequence_regularizer=true: tau/2 S^2 / loss tokens of the rollout, in its place",
        source=f"{_ABLATIONS}, loss type kimi_k15; pull request 3381, not merged",
        options=(
            number("tau", 0.2, "Factor of the squared log-ratio, halved."),
            Option(
                "sequence_regularizer",
                "sequence_regularizer",
                "bool",
                False,
                "Square the rollout's sum of log-ratios instead of each token's.",
            ),
        ),
        weight=WeightRule(Level.NONE, PAIR),
        loss=replace(
            SCORE, penalty=Penalty("squared", PAIR, Ref("tau", scale=0.5), of_sum=Ref("sequence_regularizer"))
        ),
        notes=("Mismatch and staleness act through the squared log-ratio only.", VALUE, ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/default@2026-03",
        summary="IPO: ratio as weight; tokens whose probability moved too far get 0; KL term.",
        formula=f"{TOKEN}; p - q = exp(current_t) - exp(inference_t)\n"
        "w_t = r_t if -ipo_mask_low <= p - q <= ipo_mask_high, else 0\n"
        "loss = -w_t adv_tau A + kl_tau (log r_t)^2",
        source=f"prime-rl 02bdca2e4 (2026-03-03), {_LOSS_FILE}, the default up to 2026-04-05",
        options=(
            number("ipo_mask_low", 0.2, "Largest fall in probability that is kept, inclusive."),
            number("ipo_mask_high", 0.2, "Largest rise in probability that is kept, inclusive."),
            KL_TAU,
        ),
        weight=WeightRule(Level.TOKEN, PAIR),
        filters=(difference("ipo_mask", high=Ref("ipo_mask_high"), low=Ref("ipo_mask_low", scale=-1.0)),),
        loss=_PENALISED,
        notes=("teacher_tau is not replayed: no dump has the teacher's logprobs.", _UNCAPPED, RARE, DENOMINATOR),
    ),
    Recipe(
        name="prime-rl/token@2025-12",
        summary="Ratio as a constant weight; tokens and rollouts outside three bands get 0.",
        formula=f"{TOKEN}; {SUM}; {MEAN}\nw_t = r_t if token_mask_low <= r_t <= token_mask_high,\n"
        "geo_mask_low <= exp(G) <= geo_mask_high and sequence_mask_low <= min r, max r <= sequence_mask_high, else 0\n"
        "loss = -w_t adv_tau A log pi",
        source=f"prime-rl 5f47740dd (2025-12-19) to f870f3cbd (2026-02-06), {_LOSS_FILE}, ratio_type=token",
        options=(*_TOKEN_BAND, *_GEO_BAND, *_SEQUENCE_BAND),
        weight=WeightRule(Level.TOKEN, PAIR),
        filters=(
            Filter("token_mask", low=Ref("token_mask_low"), high=Ref("token_mask_high"), pair=PAIR),
            _of_rollout("geo_mask", Reduction.MEAN, Ref("geo_mask_low"), Ref("geo_mask_high")),
            _of_rollout("sequence_mask_low", Reduction.MIN, low=Ref("sequence_mask_low")),
            _of_rollout("sequence_mask_high", Reduction.MAX, high=Ref("sequence_mask_high")),
        ),
        loss=SCORE,
        constraints=tuple(
            Constraint("less", (f"{name}_mask_low", f"{name}_mask_high")) for name in ("token", "geo", "sequence")
        ),
        notes=(
            "sequence_mask is on the extreme token of a rollout, not on the product of its ratios.",
            "kl_tau and teacher_tau are not replayed; both are 0 by default.",
            _PACKED,
            _OWN_RANK,
            VALUE,
        ),
    ),
    Recipe(
        name="prime-rl/token@2025-11",
        summary="Ratio as weight; tokens outside the band get 0, and rollouts with a ratio far below it.",
        formula=f"{TOKEN}\nw_t = r_t if mask_ratio_low <= r_t <= mask_ratio_high and min r >= "
        "sequence_mask_ratio_low, else 0\nloss = -w_t A + kl_tau log r_t",
        source=f"prime-rl 7e2f0273f (2025-10-16), f69b5a91a (10-28) and 450b37576 (11-11), {_LOSS_FILE}, "
        "ratio_type=token, kl_mask_type=all",
        options=(
            *_RATIO_BAND,
            number("sequence_mask_ratio_low", 0.0, "A rollout with a smaller r_t is rejected; 0 is off."),
            number("kl_tau", 0.0, "Factor of the log-ratio, on rejected tokens too."),
        ),
        weight=WeightRule(Level.TOKEN, PAIR),
        filters=(
            Filter("mask_ratio", low=Ref("mask_ratio_low"), high=Ref("mask_ratio_high"), pair=PAIR),
            _of_rollout("sequence_mask_ratio", Reduction.MIN, low=Ref("sequence_mask_ratio_low")),
        ),
        loss=Loss("surrogate", penalty=Penalty("k1", PAIR, Ref("kl_tau"))),
        constraints=(Constraint("less", ("mask_ratio_low", "mask_ratio_high")),),
        notes=("The KL term's gradient is kl_tau on every token, whatever its ratio.", _PACKED, _OWN_RANK),
    ),
    Recipe(
        name="prime-rl/grpo@2025-08",
        summary="Ratio with its gradient, cut from above; beyond the cut a token has no gradient.",
        formula=f"{TOKEN}\nw_t = 1\nloss = -A min(r_t, clip_ratio)",
        source=f"prime-rl ce5009266 (2025-08-23) and dece5e7fc (08-24) up to 2025-10-15, {_LOSS_FILE}, type grpo",
        options=(number("clip_ratio", 8.0, "Cut of r_t, for either sign of A."),),
        weight=WeightRule(Level.NONE, PAIR),
        loss=Loss("clipped_surrogate", pair=PAIR, delta=Ref("clip_ratio")),
        notes=("A cut token is not masked: it stays, without gradient.", _PACKED, _OWN_RANK, ONE_RATIO),
    ),
)
