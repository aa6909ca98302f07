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
    Recipe,
    Reduction,
    Ref,
    WeightRule,
)
from iscope.recipes.prime_rl_historic import HISTORIC
from iscope.recipes.prime_rl_shared import (
    DENOMINATOR,
    FILTER_ZERO_ADVANTAGES,
    MEAN,
    ONE_RATIO,
    PAIR,
    RARE,
    SCORE,
    SUM,
    SURROGATE,
    TAU,
    TOKEN,
    VALUE,
    difference,
    number,
    shipped,
)

_NOW = "prime-rl main, autumn 2026, src/prime_rl/trainer/rl/loss.py"
_PROPOSED = "prime-rl pull request 3384 (2026-08-25), published formulas"

_GEOMETRIC_OPEN = (
    "The published formulas leave open whether the band is tested in log or in ratio space; here it is the latter."
)

_ADV_TAU = number("adv_tau", 1.0, "Factor of the advantage.")
_GEO_MASK = (
    number("geo_mask_low", 0.5, "Lower bound of exp(G), inclusive."),
    number("geo_mask_high", 2.0, "Upper bound of exp(G), inclusive."),
)
_GEO_MIS_PO = (
    number("geo_mask_low", 0.996, "Lower bound of exp(G), inclusive."),
    number("geo_mask_high", 1.001, "Upper bound of exp(G), inclusive."),
)
_TOKEN_MASK = (
    number("token_mask_low", 0.5, "Lower bound of r_t, inclusive."),
    number("token_mask_high", 2.0, "Upper bound of r_t, inclusive."),
)
_MAX_RATIO = number("max_importance_ratio", 1e4, "Cap of r_t; the gradient keeps the capped value.")

_GEO_FILTER = Filter(
    "geo_mask",
    reduction=Reduction.MEAN,
    low=Ref("geo_mask_low"),
    high=Ref("geo_mask_high"),
    pair=PAIR,
    acts_on="rollout",
)
_GEO_ORDER = Constraint("less", ("geo_mask_low", "geo_mask_high"))
_RATIO_ORDER = Constraint("less", ("ratio_low", "ratio_high"))

_PROPOSAL = (
    Recipe(
        name="prime-rl/seq_tis",
        summary="Product of the rollout's ratios as weight, cut from above.",
        formula=f"{SUM}\nw_t = min(exp(S), seq_clip)\nloss = -w_t adv_tau A log pi",
        source=f"{_PROPOSED}, loss type seq_tis",
        options=(number("seq_clip", 2.0, "Upper truncation of exp(S)."),),
        weight=WeightRule(Level.SEQUENCE, PAIR, high=Ref("seq_clip")),
        loss=SCORE,
        notes=("A product over the rollout: the longer the rollout, the further from 1.", VALUE, ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/seq_mis",
        summary="Product of the ratios as weight; rollouts outside the geometric band get 0.",
        formula=f"{SUM}; {MEAN}\nw_t = exp(min(S, 40)) if geo_mask_low <= exp(G) <= geo_mask_high, else 0\n"
        "loss = -w_t adv_tau A log pi",
        source=f"{_PROPOSED}, loss type seq_mis",
        options=_GEO_MASK,
        weight=WeightRule(Level.SEQUENCE, PAIR, clamp=LogClamp(high=40.0, of="sum")),
        filters=(_GEO_FILTER,),
        loss=SCORE,
        constraints=(_GEO_ORDER,),
        notes=(
            "The band is on the mean log-ratio, the weight on the sum: what is kept can still weigh e^40.",
            _GEOMETRIC_OPEN,
            DENOMINATOR,
            VALUE,
            ONE_RATIO,
        ),
    ),
    Recipe(
        name="prime-rl/geo_mask",
        summary="Rollouts outside the geometric band get weight 0; the others 1 or a capped ratio.",
        formula=f"{SUM}; {MEAN}; {TOKEN}\n"
        "w_t = 1 (token_clip=none) or min(r_t, token_clip) if geo_mask_low <= exp(G) <= geo_mask_high, else 0\n"
        "loss = -w_t adv_tau A log pi",
        source=f"{_PROPOSED}, loss type geo_mask",
        options=(
            *_GEO_MASK,
            Option("token_clip", "token_clip", "float", None, "Upper truncation of r_t as weight.", nullable=True),
        ),
        weight=WeightRule(Level.NONE, PAIR),
        weight_if_set=("token_clip", WeightRule(Level.TOKEN, PAIR, high=Ref("token_clip"))),
        filters=(_GEO_FILTER,),
        loss=SCORE,
        constraints=(_GEO_ORDER,),
        notes=(_GEOMETRIC_OPEN, DENOMINATOR, VALUE, ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/mis_po",
        summary="Weight 1; tokens and rollouts outside their bands get 0.",
        formula=f"{SUM}; {MEAN}; {TOKEN}\n"
        "w_t = 1 if geo_mask_low <= exp(G) <= geo_mask_high and token_mask_low <= r_t <= token_mask_high, else 0\n"
        "loss = -w_t adv_tau A log pi",
        source=f"{_PROPOSED}, loss type mis_po",
        options=(*_GEO_MIS_PO, *_TOKEN_MASK),
        weight=WeightRule(Level.NONE, PAIR),
        filters=(_GEO_FILTER, Filter("token_mask", low=Ref("token_mask_low"), high=Ref("token_mask_high"), pair=PAIR)),
        loss=SCORE,
        constraints=(_GEO_ORDER, Constraint("less", ("token_mask_low", "token_mask_high"))),
        notes=(
            "The default band 0.996 to 1.001 is narrower than the noise of short rollouts.",
            _GEOMETRIC_OPEN,
            DENOMINATOR,
            VALUE,
            ONE_RATIO,
        ),
    ),
)

_CURRENT = (
    Recipe(
        name="prime-rl/ipo",
        summary="Ratio as weight; tokens whose probability moved more than eps get 0 (the default).",
        formula=f"{TOKEN}; p - q = exp(current_t) - exp(inference_t)\n"
        "w_t = min(r_t, max_importance_ratio) if |p - q| <= eps, else 0\nloss = -w_t adv_tau A",
        source=f"{_NOW}, loss type ipo (eps 0.3 since 2026-09-18; no KL term)",
        options=(number("eps", 0.3, "Largest probability difference that is kept, inclusive."), _MAX_RATIO),
        weight=WeightRule(Level.TOKEN, PAIR, high=Ref("max_importance_ratio")),
        filters=(difference("ipo", high=Ref("eps"), low=Ref("eps", scale=-1.0)),),
        loss=SURROGATE,
        notes=(RARE, DENOMINATOR, "score_centering needs the whole vocabulary and is not replayed.", ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/icepop",
        summary="Ratio as weight; tokens outside the band get 0.",
        formula=f"{TOKEN}\nw_t = r_t if ratio_low <= r_t <= ratio_high (tested in log space), else 0\n"
        "loss = -w_t adv_tau A",
        source=f"{_NOW}, loss type icepop (since 2026-09-10)",
        options=(
            number("ratio_low", 0.2, "Lower bound of r_t, inclusive."),
            number("ratio_high", 5.0, "Upper bound of r_t, inclusive."),
        ),
        weight=WeightRule(Level.TOKEN, PAIR),
        filters=(Filter("icepop", low=Ref("ratio_low"), high=Ref("ratio_high"), pair=PAIR, space="log"),),
        loss=SURROGATE,
        constraints=(_RATIO_ORDER,),
        notes=("Elsewhere IcePop's band is 0.5 to 5.", DENOMINATOR, ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/ppo",
        summary="PPO's clipped surrogate on the ratio of current over inference.",
        formula=f"{TOKEN}\nw_t = min(r_t, max_importance_ratio)\n"
        "loss = -min(w_t adv_tau A, clamp(w_t, ratio_low, ratio_high) adv_tau A)",
        source=f"{_NOW}, loss type ppo",
        options=(
            number("ratio_low", 0.8, "Below it a token with A < 0 has no gradient."),
            number("ratio_high", 1.2, "Above it a token with A > 0 has no gradient."),
            _MAX_RATIO,
        ),
        weight=WeightRule(Level.TOKEN, PAIR, high=Ref("max_importance_ratio")),
        loss=Loss("clipped_weight", low=Ref("ratio_low"), high=Ref("ratio_high"), advantage_scale=TAU),
        constraints=(_RATIO_ORDER,),
        notes=("A clipped token is not masked: it stays, without gradient.", ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/cispo",
        summary="Ratio as a constant weight, cut to the bounds; every token keeps a gradient.",
        formula=f"{TOKEN}\nw_t = clamp(r_t, ratio_low, ratio_high)\nloss = -w_t adv_tau A log pi",
        source=f"{_NOW}, loss type cispo",
        options=(
            number("ratio_low", 0.0, "Lower truncation of r_t; 0 is off."),
            number("ratio_high", 5.0, "Upper truncation of r_t."),
        ),
        weight=WeightRule(Level.TOKEN, PAIR, low=Ref("ratio_low"), high=Ref("ratio_high")),
        loss=SCORE,
        constraints=(_RATIO_ORDER,),
        notes=(VALUE, ONE_RATIO),
    ),
    Recipe(
        name="prime-rl/ref_kl",
        summary="Distillation towards the reference; tokens that lost 0.2 of probability get 0.",
        formula=f"{TOKEN}\nw_t = min(r_t, 1e4) if p - q >= -0.2, else 0\nloss = -w_t (ref_t - current_t)",
        source=f"{_NOW}, ref_kl (fixed constants, no KL term)",
        weight=WeightRule(Level.TOKEN, PAIR, high=1e4),
        filters=(difference("ref_kl", high=None, low=-0.2),),
        loss=Loss("surrogate", signal="ref"),
        notes=("Needs ref_logprobs; the advantage plays no part.", RARE, DENOMINATOR, ONE_RATIO),
    ),
)

_NONE = Recipe(
    name="prime-rl/none",
    summary="No correction: weight 1, everything kept.",
    formula="w_t = 1\nloss = -adv_tau A log pi",
    source="The base of prime-rl's losses; not an option of prime-rl's own.",
    weight=WeightRule(Level.NONE, PAIR),
    loss=SCORE,
)

FRAMEWORK = Framework(
    name="prime-rl",
    title="prime-rl",
    version="2025-08 to autumn 2026",
    recipes=tuple(map(shipped, (_NONE, *_PROPOSAL, *_CURRENT, *HISTORIC))),
    loss_options=(_ADV_TAU, FILTER_ZERO_ADVANTAGES),
    losses=(("", SCORE),),
    not_replayed=(
        ("score_centering", "it sums over the whole vocabulary; a dump has the sampled token's probability only"),
        (
            "distributional_ipo",
            "it tests the largest probabilities of the vocabulary; a dump has the sampled token's only",
        ),
        ("teacher_tau", "no dump has the teacher's logprobs"),
        ("pmd_mean", "the text of its pull request leaves its scale open"),
        ("ratio_type", "what it sets to sequence divides by packed rows, which no dump holds; token is in force here"),
    ),
)
