"""Absolute logprob differences."""

from __future__ import annotations

import numpy as np

from iscope.analysis.numbers import NO_TOKENS, share
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures


def figures(rows: Rows) -> Figures:
    """Mean and largest abs(d), nats; NeMo-RL's token_mult_prob_error, mean exp(abs(d)); mean -log p and -log q."""
    return {
        "abs_mean": share(rows.pair_total("abs_sum"), rows.tokens),
        "abs_max": abs_max(rows),
        "token_mult_prob_error": share(rows.pair_total("exp_abs_sum"), rows.tokens),
        "minus_log_p": share(-float(rows["trainer_logprob_sum"].sum()), rows.tokens),
        "minus_log_q": share(-float(rows["inference_logprob_sum"].sum()), rows.tokens),
        "tokens_at_exponent_limit": int(rows.pair_total("at_limit")),
    }


def abs_max(rows: Rows) -> Figure:
    """Largest abs(d) of any scored token, nats."""
    if not rows.rollouts:
        return Figure.absent(NO_TOKENS)
    return Figure(float(np.maximum(-rows.pair("log_ratio_min"), rows.pair("log_ratio_max")).max()))
