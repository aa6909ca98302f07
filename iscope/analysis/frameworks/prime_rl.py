"""prime-rl's metrics (src/prime_rl/trainer/rl/loss.py at 559b447; those of pull request 3384 from its formulas).

prime-rl computes most of them per rollout and then takes mean, median, std, min and max over rollouts, unweighted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iscope.analysis.numbers import NO_ROLLOUT_ADVANTAGE, Array, figure
from iscope.analysis.order_statistics import median
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Pair

_STATS: dict[str, Callable[[Array], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "median": median,
    "std": lambda values: float(np.std(values)),
    "min": lambda values: float(np.min(values)),
    "max": lambda values: float(np.max(values)),
}
_PAIR = Pair.CURRENT_INFERENCE
_OF_SIGNS = ("is_masked_low", "masked_advantage_positive", "masked_advantage_negative")


def metrics(rows: RecipeRows) -> Figures:
    """Each metric as ``name/stat`` over rollouts with loss tokens, and ``mismatch_kl/all/mean`` over tokens."""
    nan = int(rows.rows["nan_tokens"].sum())
    filled = rows.rows.n > 0
    signs = "advantage" in rows.rows
    zeros_out = rows.recipe.options["filter_zero_advantages"]
    if zeros_out:
        filled &= rows.rows.advantage != 0
    flat: Figures = {}
    for name, values in per_rollout(rows).items():
        if not signs and (zeros_out or name in _OF_SIGNS):
            flat |= _absent(name, NO_ROLLOUT_ADVANTAGE)
        elif nan:
            flat |= _absent(name, f"prime-rl's own is NaN: {nan} loss tokens have a NaN logprob")
        elif not filled.any():
            flat |= _absent(name, "no loss tokens")
        else:
            of_filled = values.compress(filled)
            flat |= {f"{name}/{stat}": figure(reduce(of_filled)) for stat, reduce in _STATS.items()}
    return flat


def _absent(name: str, why: str) -> Figures:
    return {f"{name}/{stat}": Figure.absent(why) for stat in _STATS}


def per_rollout(rows: RecipeRows) -> dict[str, Array]:
    """Each metric of each rollout [N]; a rollout without loss tokens has 0."""
    dated = rows.recipe.imitated.removeprefix("prime-rl/")
    name = dated.partition("@")[0]
    found = (_HISTORIC.get(dated) or _METRICS.get(name, _masked))(rows)
    prefix = "ref_kl/" if name == "ref_kl" else ""
    named = {f"{prefix}{metric}": values for metric, values in found.items()}
    if name == "ref_kl":
        named["ref_kl"] = -_mean(rows.rows.pair("log_ratio_sum", Pair.CURRENT_REF), rows.rows.n)
    return named


def _mean(total: Array, count: Array) -> Array:
    """Sums [N] over so many tokens [N] each; those over none are 0."""
    return np.asarray(total / np.maximum(count, 1))


def _masked(rows: RecipeRows) -> dict[str, Array]:
    return {
        "masked_mismatch_kl": _mean(rows.k3_masked, rows.masked),
        "unmasked_mismatch_kl": _mean(rows.k3_kept, rows.kept),
        "is_masked": _mean(rows.masked, rows.rows.n),
    }


def _dppo(rows: RecipeRows) -> dict[str, Array]:
    """Bounds by the sign of A: a token with A = 0 counts in is_masked only."""
    advantage, (low, high) = rows.rows.advantage, rows.rejected(0)
    dropped = rows.masked
    return _masked(rows) | {
        "is_masked_low": _mean(np.where(advantage < 0, low, 0), rows.rows.n),
        "is_masked_high": _mean(high, rows.rows.n),
        "masked_advantage_positive": _mean(np.where(advantage > 0, dropped, 0), dropped),
        "masked_advantage_negative": _mean(np.where(advantage < 0, dropped, 0), dropped),
    }


def _sequence_ratios(rows: RecipeRows) -> dict[str, Array]:
    return {
        "seq_log_ratio": rows.rows.log_ratio("sequence", _PAIR),
        "geo_log_ratio": rows.rows.log_ratio("geometric", _PAIR),
    }


def _seq_tis(rows: RecipeRows) -> dict[str, Array]:
    ratios = _sequence_ratios(rows)
    return ratios | {
        **_mismatch(rows),
        "is_clipped": (rows.truncated_high > 0).astype(np.float64),
        "seq_weight": np.exp(np.minimum(ratios["seq_log_ratio"], np.log(rows.recipe.options["seq_clip"]))),
    }


def _seq_mis(rows: RecipeRows) -> dict[str, Array]:
    """seq_weight is the weight before rejection."""
    ratios = _sequence_ratios(rows)
    return _masked(rows) | ratios | {"seq_weight": np.exp(np.minimum(ratios["seq_log_ratio"], 40.0))}


def _geo_mask(rows: RecipeRows) -> dict[str, Array]:
    return _masked(rows) | {"geo_log_ratio": rows.rows.log_ratio("geometric", _PAIR)}


def _mis_po(rows: RecipeRows) -> dict[str, Array]:
    """The two tests apart: is_traj_masked is 0 or 1, is_token_masked a share of the loss tokens."""
    names = [rule.name for rule in rows.recipe.filters]
    trajectory, token = (np.add(*rows.rejected(names.index(name))) for name in ("geo_mask", "token_mask"))
    return _geo_mask(rows) | {
        "is_traj_masked": np.asarray(trajectory > 0, dtype=np.float64),
        "is_token_masked": _mean(token, rows.rows.n),
    }


def _mismatch(rows: RecipeRows) -> dict[str, Array]:
    return {"mismatch_kl": _mean(rows.rows.pair("k3_sum", _PAIR), rows.rows.n)}


def _kimi(rows: RecipeRows) -> dict[str, Array]:
    return _mismatch(rows) | {"abs_log_ratio": _mean(rows.rows.pair("abs_sum", _PAIR), rows.rows.n)}


def _clipped(rows: RecipeRows) -> dict[str, Array]:
    return {"is_clipped": _mean(rows.truncated_low + rows.truncated_high, rows.rows.n)}


_METRICS: dict[str, Callable[[RecipeRows], dict[str, Array]]] = {
    "default": _dppo,
    "seq_tis": _seq_tis,
    "seq_mis": _seq_mis,
    "geo_mask": _geo_mask,
    "mis_po": _mis_po,
    "cispo": _clipped,
}
# By name and date, where the name alone means another rule; of 2025 only what was logged as a mean per rollout.
_HISTORIC: dict[str, Callable[[RecipeRows], dict[str, Array]]] = {
    "kimi_k15@2026-08": _kimi,
    "default@2026-03": _masked,
    "token@2025-12": _mismatch,
    "token@2025-11": _mismatch,
    "grpo@2025-08": lambda _: {},
}
