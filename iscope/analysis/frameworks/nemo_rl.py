"""NeMo-RL's metrics (git 7ea279ab, ClippedPGLossFn and the logprob error of its GRPO loop), whole batch, one rank.

Means are over the loss tokens of the rollouts that seq_logprob_error_threshold leaves, and every one divides by
their number + 1e-8. Of its loss, ``loss`` itself is left out: the ledger has no loss values.
"""

from __future__ import annotations

import numpy as np

from iscope.analysis.frameworks.nemo_rl_weights import EPSILON, dropped, out_of_bounds, sampling_ratio
from iscope.analysis.numbers import NO_ADVANTAGE, Array, figure
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Aggregation, Pair, bound_value

_NO_TOKENS = "no loss tokens"
_LAG = Pair.CURRENT_TRAINER


def metrics(rows: RecipeRows) -> Figures:
    """Every metric of the loss that the ledger can tell, and those of the logprob error."""
    kept = ~dropped(rows)
    found = _mismatch(rows, kept) | {
        "sampling_importance_ratio": sampling_ratio(rows, kept),
        **out_of_bounds(rows, kept),
        "num_valid_samples": Figure(int(kept.sum())),
        **_ratios(rows, kept),
        **_kl_penalty(rows, kept),
        "positive_nll_loss": _positive_nll(rows, kept),
        **_sequence_errors(rows, kept),
    }
    nan = int(rows.rows["nan_tokens"].sum())
    if nan:
        absent = Figure.absent(f"NeMo-RL's own may be NaN: {nan} loss tokens have a NaN logprob")
        return {name: value if name == "num_valid_samples" else absent for name, value in found.items()}
    return found


def _mean(total: float, tokens: float) -> Figure:
    return figure(total / (tokens + EPSILON)) if tokens else Figure.absent(_NO_TOKENS)


def _mismatch(rows: RecipeRows, kept: Array) -> Figures:
    """The distance of the two policies: with force_on_policy_ratio that of the current one from the engine."""
    pair, tokens = rows.recipe.weight.pair, float(rows.rows.n[kept].sum())

    def mean(name: str, of: Pair = pair, scale: float = 1.0) -> Figure:
        return _mean(scale * float(rows.rows.pair(name, of)[kept].sum()), tokens)

    forward, backward = {
        "k1": (mean("log_ratio_sum", scale=-1.0), mean("log_ratio_sum")),
        "k2": (mean("log_ratio_sq", scale=0.5), mean("log_ratio_sq", scale=0.5)),
        "k3": (mean("k3_sum"), mean("reverse_k3_sum")),
    }[str(rows.recipe.options["reference_policy_kl_type"])]
    return {
        "token_mult_prob_error": mean("exp_abs_sum"),
        "gen_kl_error": forward,
        "policy_kl_error": backward,
        "js_divergence_error": mean("jensen_shannon_sum"),
        "approx_entropy": mean("weighted_surprise_sum", Pair.CURRENT_INFERENCE),
    }


def _ratios(rows: RecipeRows, kept: Array) -> Figures:
    """The ratio of the loss, over tokens; absent where NeMo-RL logs logprobs under these names."""
    names = ("probs_ratio", "probs_ratio_clamped")
    every = [f"{name}{suffix}" for name in names for suffix in ("", "_min", "_max")]
    tokens = rows.rows.n * kept
    if not tokens.sum():
        return dict.fromkeys(every, Figure.absent(_NO_TOKENS))
    loss = rows.recipe.loss
    if loss.type == "surrogate":
        one: Figures = dict.fromkeys(every, Figure(1.0))
        return one | dict.fromkeys(names, _mean(float(tokens.sum()), float(tokens.sum())))
    if loss.type == "score":
        return dict.fromkeys(every, Figure.absent("with disable_ppo_ratio it is the mean logprob, which is not kept"))
    if f"{_LAG}:log_ratio_sum" not in rows.rows:
        return {}
    return _of_ratio(rows, tokens)


def _of_ratio(rows: RecipeRows, tokens: Array) -> Figures:
    loss, filled = rows.recipe.loss, tokens > 0
    clipped: Array | None
    if loss.level == "sequence":
        ratio = np.exp(rows.rows.pair("log_ratio_sum", _LAG) / (rows.rows.n + EPSILON))
        sums, clipped = ratio * tokens, np.clip(ratio, bound_value(loss.low), bound_value(loss.high)) * tokens
        edges = (ratio[filled].min(), ratio[filled].max())
    else:
        sums = rows.rows.pair("weight_sum", _LAG) * filled
        clipped = rows.get("loss.clipped_ratio")
        logs = [rows.rows.pair(f"log_ratio_{end}", _LAG)[filled] for end in ("min", "max")]
        edges = (np.exp(logs[0].min()), np.exp(logs[1].max()))
    inside = np.clip(np.array(edges), bound_value(loss.low), bound_value(loss.high))
    count = float(tokens.sum())
    return {
        "probs_ratio": _mean(float(sums.sum()), count),
        "probs_ratio_min": figure(float(edges[0])),
        "probs_ratio_max": figure(float(edges[1])),
        "probs_ratio_clamped": Figure.absent(NO_ADVANTAGE)
        if clipped is None
        else _mean(float((clipped * filled).sum()), count),
        "probs_ratio_clamped_min": figure(float(inside[0])),
        "probs_ratio_clamped_max": figure(float(inside[1])),
    }


def _kl_penalty(rows: RecipeRows, kept: Array) -> Figures:
    """The KL term before its factor, aggregated as the loss is; 0 where there is none."""
    penalty = rows.recipe.loss.penalty
    if penalty is None or not bound_value(penalty.coefficient):
        return {"kl_penalty": Figure(0.0)}
    total = rows["loss.kl"][kept]
    if rows.recipe.loss.aggregation is Aggregation.TOKEN_MEAN:
        return {"kl_penalty": _mean(float(total.sum()), float(rows.rows.n[kept].sum()))}
    each = total / (rows.rows.n[kept] + EPSILON)
    return {"kl_penalty": _mean(float(each.sum()), float(kept.sum()))}


def _positive_nll(rows: RecipeRows, kept: Array) -> Figure:
    """Mean of -log pi over the tokens of rollouts with a reward above 0, before its factor; 0 where there is none."""
    if not rows.recipe.loss.needs_reward:
        return Figure(0.0)
    good = kept & (rows.rows["reward"] > 0)
    tokens = float(rows.rows.n[good].sum())
    return _mean(float(rows["loss.nll"][good].sum()), tokens) if tokens else Figure(0.0)


def _sequence_errors(rows: RecipeRows, kept: Array) -> Figures:
    """exp(abs(d)) averaged over each rollout with loss tokens, before and after those beyond the threshold go."""
    filled = rows.rows.n > 0
    error = rows.rows.pair("exp_abs_sum") / np.maximum(rows.rows.n, 1)
    found = _spread("", error[filled]) | _spread("_after_mask", error[filled & kept])
    found["num_masked_seqs_by_logprob_error"] = Figure(int((~kept).sum()))
    if "reward" in rows.rows:
        correct = rows.rows["reward"][~kept] == 1
        found["masked_correct_pct"] = figure(float(correct.mean())) if correct.size else Figure(0.0)
    return found


def _spread(suffix: str, errors: Array) -> Figures:
    reduced = (errors.max(), errors.mean(), errors.min()) if errors.size else (0.0, 0.0, 0.0)
    names = (f"{stat}_seq_mult_prob_error{suffix}" for stat in ("max", "mean", "min"))
    return {name: figure(float(value)) for name, value in zip(names, reduced, strict=True)}
