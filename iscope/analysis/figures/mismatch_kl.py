"""Mismatch KL: k1, k2 and k3 of the trainer over the inference engine."""

from __future__ import annotations

import numpy as np

from iscope.analysis.intervals import ratio
from iscope.analysis.numbers import NO_TOKENS, figure
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures


def figures(rows: Rows) -> Figures:
    """Estimators of KL(mu || pi_old) from tokens sampled from mu, nats per token.

    k1 = mean(-d), k2 = mean(d^2) / 2, k3 = mean(exp(d) - 1 - d) over scored tokens (Schulman's estimators; k3 is
    prime-rl's mismatch_kl, verl's k3_kl and NeMo-RL's gen_kl_error). ``k3_rollout_mean`` is the mean over rollouts
    of each rollout's mean.
    """
    return {
        "k1": ratio(rows.clusters, -rows.pair("log_ratio_sum"), rows.n),
        "k2": ratio(rows.clusters, rows.pair("log_ratio_sq") / 2, rows.n),
        "k3": ratio(rows.clusters, rows.pair("k3_sum"), rows.n),
        "k3_rollout_mean": k3_rollout_mean(rows),
    }


def k3_rollout_mean(rows: Rows) -> Figure:
    """Mean over rollouts of k3, nats per token."""
    if not rows.rollouts:
        return Figure.absent(NO_TOKENS)
    return figure(float(np.mean(rows.pair("k3_sum") / rows.n)))
