"""The figures that have intervals, by their names in the JSON report."""

from __future__ import annotations

_MISMATCH = ("k1", "k2", "k3", "abs_mean", "minus_log_p", "minus_log_q", "variance_ratio", "sampler_check")
_PARTS = ("k1", "k3", "abs_mean")
_TOKENS = ("mean", "outside_half_two")

LISTED = frozenset(
    {
        *(f"mismatch.{name}" for name in _MISMATCH),
        *(f"mismatch.ratio.token.{name}" for name in (*_TOKENS, "ess", "ess_fraction")),
        *(f"mismatch.by_p.{name}" for name in ("k3", "abs_mean", "token_share", "gradient_share")),
        *(f"mismatch.lag.parts.{part}.{name}" for part in ("engine", "lag", "total") for name in _PARTS),
        *(f"recipes.{change}.token_fraction" for change in ("masked", "modified")),
        *(f"recipes.{stage}.{name}" for stage in ("raw", "applied") for name in _TOKENS),
        *(f"recipes.{name}" for name in ("raw.ess_token", "ess.token", "ess.token_fraction")),
        *(f"recipes.{name}" for name in ("effective_batch_size", "effective_batch_size.base")),
        *(f"recipes.gradient_left.{name}" for name in ("all", "positive", "negative", "survivors")),
        *(f"recipes.{name}" for name in ("product_left", "unmasked_mismatch_kl.token")),
        *(f"breakdowns.{name}" for name in ("k1", "k3", "ess_token_fraction", "minus_log_p", "variance_ratio")),
        *(f"breakdowns.recipes.{name}" for name in ("effective_batch_size", "effective_batch_size.base")),
        *(f"breakdowns.recipes.gradient_left.{name}" for name in ("all", "positive", "negative")),
    }
)
