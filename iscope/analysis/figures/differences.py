"""Absolute logprob differences."""

from __future__ import annotations

import numpy as np

from iscope.analysis.intervals import ratio
from iscope.analysis.numbers import NO_TOKENS, Array, share
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures
from iscope.recipes.model import Pair


def figures(rows: Rows) -> Figures:
    """Mean and largest abs(d), nats; NeMo-RL's token_mult_prob_error, mean exp(abs(d)); mean -log p and -log q."""
    return {
        "abs_mean": ratio(rows.clusters, rows.pair("abs_sum"), rows.n),
        "abs_max": abs_max(rows),
        "token_mult_prob_error": share(rows.pair_total("exp_abs_sum"), rows.tokens),
        "minus_log_p": ratio(rows.clusters, -rows["trainer_logprob_sum"], rows.n),
        "minus_log_q": ratio(rows.clusters, -rows["inference_logprob_sum"], rows.n),
        "tokens_at_exponent_limit": int(rows.pair_total("at_limit")),
    }


def abs_max(rows: Rows, pair: Pair = Pair.TRAINER_INFERENCE) -> Figure:
    """Largest abs(d) of any scored token, nats."""
    return Figure(float(largest(rows, pair).max())) if rows.rollouts else Figure.absent(NO_TOKENS)


def largest(rows: Rows, pair: Pair = Pair.TRAINER_INFERENCE) -> Array:
    """Largest abs(d) of each rollout, nats."""
    return np.maximum(-rows.pair("log_ratio_min", pair), rows.pair("log_ratio_max", pair))
