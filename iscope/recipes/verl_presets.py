"""verl's presets of its rollout correction, ``RolloutCorrectionConfig`` of verl 0.9.1."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from iscope.recipes.model import Constraint, Filter, Level, Loss, Option, Pair, Recipe, Ref, WeightRule
from iscope.recipes.verl_losses import APART, SCORE, VANILLA
from iscope.recipes.verl_rules import (
    BYPASS,
    CLIP_ONLY,
    DECOUPLED,
    DROPPED,
    INVERTED,
    LIMITS_TEXT,
    LOGGED,
    MICRO_BATCH,
    NO_LOWER,
    OF_SUM,
    RHO,
    VERSION,
    ZEROED,
    icepop,
    rejections,
    unweighted,
    weight,
)

# Rejection happens inside the loss there, after the batch's loss tokens were counted.
_COUNTED = replace(SCORE.denominator, counts_dropped=True)
REINFORCE = replace(SCORE, denominator=_COUNTED, pair=BYPASS, penalty=APART)
PPO_CLIP = replace(VANILLA, type="clipped_weight", denominator=_COUNTED, pair=BYPASS, penalty=APART)

_CAP = "Upper truncation of the weight."
_THRESHOLD = Option("threshold", "threshold", "float", 2.0, _CAP)
_IS_THRESHOLD = Option("is_threshold", "is_threshold", "float", 2.0, _CAP)
_ICEPOP = (
    Option("threshold", "threshold", "float", 5.0, "Upper bound of rho_t, inclusive."),
    Option("threshold_lower", "threshold_lower", "float", 0.5, "Lower bound of rho_t, inclusive."),
)
_ICEPOP_ORDER = (
    Constraint("at_most", ("threshold_lower", "threshold")),
    Constraint("positive", ("threshold_lower",)),
)
_RS_BOUNDS: dict[str, tuple[float | str, str]] = {
    "seq_sum_k1": ("0.5_2", "L_U, or U alone for 1/U_U: bounds of the sum of -d_t, as ln(L) and ln(U), inclusive."),
    "seq_mean_k1": (
        "0.999_1.001",
        "L_U, or U alone for 1/U_U: bounds of the mean of -d_t, as ln(L) and ln(U), inclusive.",
    ),
    "seq_mean_k3": (0.01, "Upper bound of the mean k3, nats, inclusive."),
}
_RS_TEXT = {
    "seq_sum_k1": "keep the rollout where ln(L) <= sum_t -d_t <= ln(U), rs_threshold = L_U",
    "seq_mean_k1": "keep the rollout where ln(L) <= mean_t -d_t <= ln(U), rs_threshold = L_U",
    "seq_mean_k3": "keep the rollout where mean_t (exp(d_t) - 1 - d_t) <= rs_threshold",
}
_WEIGHT_TEXT = {
    "token": "w_t = min(exp(d_t), {bound})",
    "sequence": "w_t = min(exp(sum_t d_t), {bound})",
}

_Weighted = Literal["token", "sequence"]


def _preset(
    name: str,
    summary: str,
    level: _Weighted | None = None,
    rs: str | None = None,
    pair: Pair = DECOUPLED,
    loss: Loss | None = None,
) -> Recipe:
    bound = "is_threshold" if rs else "threshold"
    options = ((_IS_THRESHOLD,) if rs else (_THRESHOLD,)) if level else ()
    notes = (*((NO_LOWER, LOGGED) if level else ()), *((DROPPED,) if rs else ()))
    if rs is not None:
        default, doc = _RS_BOUNDS[rs]
        options = (*options, Option("rs_threshold", "rs_threshold", "pair", default, doc))
        notes = (*notes, *((INVERTED,) if rs.endswith("k1") else ()))
    clipped = loss is PPO_CLIP
    return Recipe(
        name=f"verl/{name}",
        summary=summary,
        formula=_formula(level, rs, pair, bound, clipped),
        source=f"{VERSION}, RolloutCorrectionConfig.{name}",
        options=options,
        weight=_rule(level, pair, bound, clipped),
        filter_list=None if rs is None else rejections((rs,), "rs_threshold", pair),
        loss=loss,
        notes=(*notes, *((CLIP_ONLY,) if clipped else ()), *((MICRO_BATCH,) if pair is BYPASS else ())),
    )


def _rule(level: _Weighted | None, pair: Pair, bound: str, clipped: bool) -> WeightRule:
    if level == "sequence":
        return weight(Level.SEQUENCE, bound, pair, OF_SUM)
    if level == "token":
        return weight(Level.TOKEN, bound, pair)
    plain = unweighted(pair)
    return replace(plain, level=Level.TOKEN) if clipped else plain


def _formula(level: _Weighted | None, rs: str | None, pair: Pair, bound: str, clipped: bool) -> str:
    lines = [RHO[pair], _WEIGHT_TEXT[level].format(bound=bound) if level else "w_t = 1"]
    if clipped:
        lines[1] = "loss = vanilla's, with r_t = exp(d_t)"
    if rs is not None:
        lines.append(_RS_TEXT[rs])
    if pair is BYPASS and not clipped:
        lines.append("loss = -A w_t log pi")
    return "\n".join((*lines, LIMITS_TEXT))


def _token_icepop(name: str, summary: str, pair: Pair, loss: Loss | None = None) -> Recipe:
    rule: Filter = replace(icepop("token", "threshold", pair), low=Ref("threshold_lower"), high=Ref("threshold"))
    return Recipe(
        name=f"verl/{name}",
        summary=summary,
        formula=f"{RHO[pair]}\nw_t = exp(d_t) if threshold_lower <= exp(d_t) <= threshold, else 0\n{LIMITS_TEXT}",
        source=f"{VERSION}, RolloutCorrectionConfig.{name}",
        options=_ICEPOP,
        weight=replace(weight(Level.TOKEN, "threshold", pair), high=None),
        filters=(rule,),
        loss=loss,
        constraints=_ICEPOP_ORDER,
        notes=(ZEROED, LOGGED, *((MICRO_BATCH,) if pair is BYPASS else ())),
    )


def _decoupled() -> tuple[Recipe, ...]:
    return (
        _preset("decoupled_token_is", "Token ratio as weight, truncated.", "token"),
        _preset("decoupled_seq_is", "Product over the rollout as weight, truncated.", "sequence"),
        _token_icepop("decoupled_token_icepop", "Token ratio as weight, 0 outside the bounds.", DECOUPLED),
        _preset(
            "decoupled_seq_is_rs",
            "Product over the rollout as weight, truncated; rollouts outside the bounds of the product rejected.",
            "sequence",
            "seq_sum_k1",
        ),
        _preset(
            "decoupled_geo_rs", "Rollouts outside the bounds of the geometric ratio rejected.", None, "seq_mean_k1"
        ),
        _preset(
            "decoupled_geo_rs_seq_tis",
            "Rejection by the geometric ratio; product over the rollout as weight, truncated.",
            "sequence",
            "seq_mean_k1",
        ),
        _preset(
            "decoupled_geo_rs_token_tis",
            "Rejection by the geometric ratio; token ratio as weight, truncated.",
            "token",
            "seq_mean_k1",
        ),
        _preset("decoupled_k3_rs", "Rollouts with too large a mean k3 rejected.", None, "seq_mean_k3"),
        _preset(
            "decoupled_k3_rs_seq_tis",
            "Rejection by the mean k3; product over the rollout as weight, truncated.",
            "sequence",
            "seq_mean_k3",
        ),
        _preset(
            "decoupled_k3_rs_token_tis",
            "Rejection by the mean k3; token ratio as weight, truncated.",
            "token",
            "seq_mean_k3",
        ),
    )


def _bypass() -> tuple[Recipe, ...]:
    clip, score = PPO_CLIP, REINFORCE
    return (
        _preset("bypass_ppo_clip", "PPO's clipped surrogate on current/inference.", pair=BYPASS, loss=clip),
        _preset(
            "bypass_ppo_clip_geo_rs",
            "PPO's clipped surrogate on current/inference; rejection by the geometric ratio.",
            rs="seq_mean_k1",
            pair=BYPASS,
            loss=clip,
        ),
        _preset(
            "bypass_ppo_clip_k3_rs",
            "PPO's clipped surrogate on current/inference; rejection by the mean k3.",
            rs="seq_mean_k3",
            pair=BYPASS,
            loss=clip,
        ),
        _preset(
            "bypass_pg_is",
            "REINFORCE with the product of current/inference, truncated.",
            "sequence",
            None,
            BYPASS,
            score,
        ),
        _token_icepop(
            "bypass_pg_token_icepop", "REINFORCE with current/inference, 0 outside the bounds.", BYPASS, score
        ),
        _preset(
            "bypass_pg_geo_rs",
            "REINFORCE, weight 1; rejection by the geometric ratio.",
            None,
            "seq_mean_k1",
            BYPASS,
            score,
        ),
        _preset(
            "bypass_pg_geo_rs_seq_tis",
            "REINFORCE with the product of current/inference, truncated; rejection by the geometric ratio.",
            "sequence",
            "seq_mean_k1",
            BYPASS,
            score,
        ),
        _preset(
            "bypass_pg_geo_rs_token_tis",
            "REINFORCE with current/inference, truncated; rejection by the geometric ratio.",
            "token",
            "seq_mean_k1",
            BYPASS,
            score,
        ),
    )


PRESETS = (*_decoupled(), *_bypass())
