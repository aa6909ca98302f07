"""prime-rl's losses: one ratio, current over inference, carries engine mismatch and staleness together."""

from __future__ import annotations

from iscope.recipes.model import (
    Constraint,
    Filter,
    Framework,
    Level,
    LogClamp,
    Loss,
    Option,
    Pair,
    Penalty,
    Quantity,
    Recipe,
    Reduction,
    Ref,
    Signs,
    WeightRule,
)

_PAIR = Pair.CURRENT_INFERENCE
_TAU = Ref("adv_tau")
_SCORE = Loss("score", advantage_scale=_TAU)
_SURROGATE = Loss("surrogate", advantage_scale=_TAU)

_NOW = "prime-rl main, autumn 2026, src/prime_rl/trainer/rl/loss.py"
_AUGUST = "prime-rl 559b447 (2026-08-21), src/prime_rl/trainer/rl/loss.py"
_PROPOSED = "prime-rl pull request 3384 (2026-08-25), published formulas"

_TOKEN = "r_t = exp(current_t - inference_t), over loss tokens"
_SUM = "S = sum_t (current_t - inference_t), over loss tokens"
_MEAN = "G = S / loss tokens"

_DENOMINATOR = "Rejected tokens stay in N_rl, the loss tokens that the sum is divided by."
_ONE_RATIO = "Without current logprobs the trainer's stand in: the ratio then holds the engine's share only."
_VALUE = "The loss value is -w A log pi, a score surrogate: it is not comparable with losses of the form -A r."
_RARE = "A difference of probabilities never rejects a rare token, however far its ratio is from 1."
_GEOMETRIC_OPEN = (
    "The published formulas leave open whether the band is tested in log or in ratio space; here it is the latter."
)


def _number(name: str, default: float, doc: str) -> Option:
    return Option(name, name, "float", default, doc)


_ADV_TAU = _number("adv_tau", 1.0, "Factor of the advantage.")
_GEO_MASK = (
    _number("geo_mask_low", 0.5, "Lower bound of exp(G), inclusive."),
    _number("geo_mask_high", 2.0, "Upper bound of exp(G), inclusive."),
)
_GEO_MIS_PO = (
    _number("geo_mask_low", 0.996, "Lower bound of exp(G), inclusive."),
    _number("geo_mask_high", 1.001, "Upper bound of exp(G), inclusive."),
)
_TOKEN_MASK = (
    _number("token_mask_low", 0.5, "Lower bound of r_t, inclusive."),
    _number("token_mask_high", 2.0, "Upper bound of r_t, inclusive."),
)
_MAX_RATIO = _number("max_importance_ratio", 1e4, "Cap of r_t; the gradient keeps the capped value.")
_KL_TAU = _number("kl_tau", 1e-3, "Factor of the squared log-ratio, on rejected tokens too.")

_GEO_FILTER = Filter(
    "geo_mask",
    reduction=Reduction.MEAN,
    low=Ref("geo_mask_low"),
    high=Ref("geo_mask_high"),
    pair=_PAIR,
    acts_on="rollout",
)
_GEO_ORDER = Constraint("less", ("geo_mask_low", "geo_mask_high"))
_RATIO_ORDER = Constraint("less", ("ratio_low", "ratio_high"))
_KL = Penalty("squared", _PAIR, Ref("kl_tau"))


def _difference(name: str, high: Ref | float | None, low: Ref | float | None = None) -> Filter:
    return Filter(name, Quantity.PROBABILITY_DIFFERENCE, low=low, high=high, pair=_PAIR, space="plain")


_PROPOSAL = (
    Recipe(
        name="prime-rl/seq_tis",
        summary="Product of the rollout's ratios as weight, cut from above.",
        formula=f"{_SUM}\nw_t = min(exp(S), seq_clip)\nloss = -w_t adv_tau A log pi",
        source=f"{_PROPOSED}, loss type seq_tis",
        options=(_number("seq_clip", 2.0, "Upper truncation of exp(S)."),),
        weight=WeightRule(Level.SEQUENCE, _PAIR, high=Ref("seq_clip")),
        loss=_SCORE,
        notes=("A product over the rollout: the longer the rollout, the further from 1.", _VALUE, _ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/seq_mis",
        summary="Product of the ratios as weight; rollouts outside the geometric band get 0.",
        formula=f"{_SUM}; {_MEAN}\nw_t = exp(min(S, 40)) if geo_mask_low <= exp(G) <= geo_mask_high, else 0\n"
        "loss = -w_t adv_tau A log pi",
        source=f"{_PROPOSED}, loss type seq_mis",
        options=_GEO_MASK,
        weight=WeightRule(Level.SEQUENCE, _PAIR, clamp=LogClamp(high=40.0, of="sum")),
        filters=(_GEO_FILTER,),
        loss=_SCORE,
        constraints=(_GEO_ORDER,),
        notes=(
            "The band is on the mean log-ratio, the weight on the sum: what is kept can still weigh e^40.",
            _GEOMETRIC_OPEN,
            _DENOMINATOR,
            _VALUE,
            _ONE_RATIO,
        ),
    ),
    Recipe(
        name="prime-rl/geo_mask",
        summary="Rollouts outside the geometric band get weight 0; the others 1 or a capped ratio.",
        formula=f"{_SUM}; {_MEAN}; {_TOKEN}\n"
        "w_t = 1 (token_clip=none) or min(r_t, token_clip) if geo_mask_low <= exp(G) <= geo_mask_high, else 0\n"
        "loss = -w_t adv_tau A log pi",
        source=f"{_PROPOSED}, loss type geo_mask",
        options=(
            *_GEO_MASK,
            Option("token_clip", "token_clip", "float", None, "Upper truncation of r_t as weight.", nullable=True),
        ),
        weight=WeightRule(Level.NONE, _PAIR),
        weight_if_set=("token_clip", WeightRule(Level.TOKEN, _PAIR, high=Ref("token_clip"))),
        filters=(_GEO_FILTER,),
        loss=_SCORE,
        constraints=(_GEO_ORDER,),
        notes=(_GEOMETRIC_OPEN, _DENOMINATOR, _VALUE, _ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/mis_po",
        summary="Weight 1; tokens and rollouts outside their bands get 0.",
        formula=f"{_SUM}; {_MEAN}; {_TOKEN}\n"
        "w_t = 1 if geo_mask_low <= exp(G) <= geo_mask_high and token_mask_low <= r_t <= token_mask_high, else 0\n"
        "loss = -w_t adv_tau A log pi",
        source=f"{_PROPOSED}, loss type mis_po",
        options=(*_GEO_MIS_PO, *_TOKEN_MASK),
        weight=WeightRule(Level.NONE, _PAIR),
        filters=(_GEO_FILTER, Filter("token_mask", low=Ref("token_mask_low"), high=Ref("token_mask_high"), pair=_PAIR)),
        loss=_SCORE,
        constraints=(_GEO_ORDER, Constraint("less", ("token_mask_low", "token_mask_high"))),
        notes=(
            "The default band 0.996 to 1.001 is narrower than the noise of short rollouts.",
            _GEOMETRIC_OPEN,
            _DENOMINATOR,
            _VALUE,
            _ONE_RATIO,
        ),
    ),
)

_CURRENT = (
    Recipe(
        name="prime-rl/ipo",
        summary="Ratio as weight; tokens whose probability moved more than eps get 0 (the default).",
        formula=f"{_TOKEN}; p - q = exp(current_t) - exp(inference_t)\n"
        "w_t = min(r_t, max_importance_ratio) if |p - q| <= eps, else 0\nloss = -w_t adv_tau A",
        source=f"{_NOW}, loss type ipo (eps 0.3 since 2026-09-18; no KL term)",
        options=(_number("eps", 0.3, "Largest probability difference that is kept, inclusive."), _MAX_RATIO),
        weight=WeightRule(Level.TOKEN, _PAIR, high=Ref("max_importance_ratio")),
        filters=(_difference("ipo", high=Ref("eps"), low=Ref("eps", scale=-1.0)),),
        loss=_SURROGATE,
        notes=(_RARE, _DENOMINATOR, "score_centering needs the whole vocabulary and is not replayed.", _ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/icepop",
        summary="Ratio as weight; tokens outside the band get 0.",
        formula=f"{_TOKEN}\nw_t = r_t if ratio_low <= r_t <= ratio_high (tested in log space), else 0\n"
        "loss = -w_t adv_tau A",
        source=f"{_NOW}, loss type icepop (since 2026-09-10)",
        options=(
            _number("ratio_low", 0.2, "Lower bound of r_t, inclusive."),
            _number("ratio_high", 5.0, "Upper bound of r_t, inclusive."),
        ),
        weight=WeightRule(Level.TOKEN, _PAIR),
        filters=(Filter("icepop", low=Ref("ratio_low"), high=Ref("ratio_high"), pair=_PAIR, space="log"),),
        loss=_SURROGATE,
        constraints=(_RATIO_ORDER,),
        notes=("Elsewhere IcePop's band is 0.5 to 5.", _DENOMINATOR, _ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/ppo",
        summary="PPO's clipped surrogate on the ratio of current over inference.",
        formula=f"{_TOKEN}\nw_t = min(r_t, max_importance_ratio)\n"
        "loss = -min(w_t adv_tau A, clamp(w_t, ratio_low, ratio_high) adv_tau A)",
        source=f"{_NOW}, loss type ppo",
        options=(
            _number("ratio_low", 0.8, "Below it a token with A < 0 has no gradient."),
            _number("ratio_high", 1.2, "Above it a token with A > 0 has no gradient."),
            _MAX_RATIO,
        ),
        weight=WeightRule(Level.TOKEN, _PAIR, high=Ref("max_importance_ratio")),
        loss=Loss("clipped_weight", low=Ref("ratio_low"), high=Ref("ratio_high"), advantage_scale=_TAU),
        constraints=(_RATIO_ORDER,),
        notes=("A clipped token is not masked: it stays, without gradient.", _ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/cispo",
        summary="Ratio as a constant weight, cut to the bounds; every token keeps a gradient.",
        formula=f"{_TOKEN}\nw_t = clamp(r_t, ratio_low, ratio_high)\nloss = -w_t adv_tau A log pi",
        source=f"{_NOW}, loss type cispo",
        options=(
            _number("ratio_low", 0.0, "Lower truncation of r_t; 0 is off."),
            _number("ratio_high", 5.0, "Upper truncation of r_t."),
        ),
        weight=WeightRule(Level.TOKEN, _PAIR, low=Ref("ratio_low"), high=Ref("ratio_high")),
        loss=_SCORE,
        constraints=(_RATIO_ORDER,),
        notes=(_VALUE, _ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/ref_kl",
        summary="Distillation towards the reference; tokens that lost 0.2 of probability get 0.",
        formula=f"{_TOKEN}\nw_t = min(r_t, 1e4) if p - q >= -0.2, else 0\nloss = -w_t (ref_t - current_t)",
        source=f"{_NOW}, ref_kl (fixed constants, no KL term)",
        weight=WeightRule(Level.TOKEN, _PAIR, high=1e4),
        filters=(_difference("ref_kl", high=None, low=-0.2),),
        loss=Loss("surrogate", signal="ref"),
        notes=("Needs ref_logprobs; the advantage plays no part.", _RARE, _DENOMINATOR, _ONE_RATIO),
    ),
)

_HISTORIC = (
    Recipe(
        name="prime-rl/default@2026-08",
        summary="DPPO: ratio as weight; tokens moved too far in the direction of A get 0; KL term.",
        formula=f"{_TOKEN}; p - q = exp(current_t) - exp(inference_t)\n"
        "w_t = 0 if A > 0 and p - q > dppo_mask_high, or A <= 0 and p - q < -dppo_mask_low; else r_t\n"
        "loss = -w_t adv_tau A + kl_tau (log r_t)^2",
        source=f"{_AUGUST}, loss type default (removed 2026-08-27)",
        options=(
            _number("dppo_mask_low", 0.2, "Largest fall in probability that is kept where A <= 0, inclusive."),
            _number("dppo_mask_high", 0.2, "Largest rise in probability that is kept where A > 0, inclusive."),
            _KL_TAU,
        ),
        weight=WeightRule(Level.TOKEN, _PAIR),
        filters=(
            Filter(
                "dppo_mask",
                Quantity.PROBABILITY_DIFFERENCE,
                low=Ref("dppo_mask_low", scale=-1.0),
                high=Ref("dppo_mask_high"),
                pair=_PAIR,
                space="plain",
                low_signs=Signs.NON_POSITIVE,
                high_signs=Signs.POSITIVE,
            ),
        ),
        loss=Loss("surrogate", advantage_scale=_TAU, penalty=_KL),
        notes=(
            "Tokens with A = 0 take the lower test; they count in is_masked but not in is_masked_low.",
            "The bounds are differences of probabilities, not ratios.",
            "The ratio is neither capped nor constant: one token can hold the whole gradient.",
            _RARE,
            _DENOMINATOR,
            _ONE_RATIO,
        ),
    ),
    Recipe(
        name="prime-rl/ipo@2026-08",
        summary="Ratio as weight; tokens whose probability moved more than a limit get 0; KL term.",
        formula=f"{_TOKEN}; p - q = exp(current_t) - exp(inference_t)\n"
        "w_t = r_t if |p - q| <= ipo_threshold, else 0\nloss = -w_t adv_tau A + kl_tau (log r_t)^2",
        source=f"{_AUGUST}, loss type ipo",
        options=(_number("ipo_threshold", 0.1, "Largest probability difference that is kept, inclusive."), _KL_TAU),
        weight=WeightRule(Level.TOKEN, _PAIR),
        filters=(_difference("ipo", high=Ref("ipo_threshold"), low=Ref("ipo_threshold", scale=-1.0)),),
        loss=Loss("surrogate", advantage_scale=_TAU, penalty=_KL),
        notes=("Neither capped nor constant: one token can hold the whole gradient.", _RARE, _DENOMINATOR, _ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/ref_kl@2026-08",
        summary="Distillation towards the reference, with the KL term of August 2026.",
        formula=f"{_TOKEN}\nw_t = r_t if p - q >= -0.2, else 0\nloss = -w_t (ref_t - current_t) + 0.001 (log r_t)^2",
        source=f"{_AUGUST}, ref_kl (fixed constants)",
        weight=WeightRule(Level.TOKEN, _PAIR),
        filters=(_difference("ref_kl", high=None, low=-0.2),),
        loss=Loss("surrogate", signal="ref", penalty=Penalty("squared", _PAIR, 1e-3)),
        notes=("Needs ref_logprobs; the advantage plays no part.", _RARE, _DENOMINATOR, _ONE_RATIO),
    ),
)

_NONE = Recipe(
    name="prime-rl/none",
    summary="No correction: weight 1, everything kept.",
    formula="w_t = 1\nloss = -adv_tau A log pi",
    source="The base of prime-rl's losses; not an option of prime-rl's own.",
    weight=WeightRule(Level.NONE, _PAIR),
    loss=_SCORE,
)

FRAMEWORK = Framework(
    name="prime-rl",
    title="prime-rl",
    version="2026-08 to autumn 2026",
    recipes=(_NONE, *_PROPOSAL, *_CURRENT, *_HISTORIC),
    loss_options=(_ADV_TAU,),
    losses=(("", _SCORE),),
)
