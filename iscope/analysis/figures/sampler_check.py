"""Sampler check: whether the tokens can have been sampled from the logged probabilities."""

from __future__ import annotations

import math

import numpy as np

from iscope.analysis.figures.lag import versions_differ
from iscope.analysis.intervals import Clusters, closed, ratio
from iscope.analysis.numbers import NO_TOKENS
from iscope.analysis.rows import Rows
from iscope.ledger import histogram
from iscope.model import Figure, Figures
from iscope.recipes.model import Pair

# A mean ratio this close to 1 is no matter even where it is known better.
_TOLERANCE = 0.02
# Truncation leaves a surviving mass Z and log-ratios at log Z; less than this is hardly ever left of a token.
_LEAST_MASS = 0.2
_LAGGING = "no rollout is at lag 0: every trainer_version differs from its policy_version"
_NOT_SAMPLED = "the tokens were not sampled from the logged probabilities"
_TRUNCATED = (
    "its shape is that of truncated support (top-p, top-k or min-p): log-ratios at the level of a surviving mass, no "
    "heavy left tail"
)


def figures(rows: Rows) -> Figures:
    """``sampler_check``: mean token ratio, trainer over inference at lag 0, and what it says.

    E_mu[rho] = 1 if the tokens were sampled from the logged mu. ``message`` is set only where the interval excludes 1
    and the mean is off by more than 0.02; a mean inside proves nothing. Rollouts whose versions are unknown count as
    lag 0 (``rollouts`` says how many there are).
    """
    fresh = ~versions_differ(rows)[0]
    if not fresh.any():
        found = Figure.absent(_LAGGING if rows.rollouts else NO_TOKENS)
    else:
        clusters = rows.clusters if fresh.all() else Clusters.of(rows.cluster_codes[fresh])
        found = closed(ratio(clusters, rows.pair("weight_sum")[fresh], rows.n[fresh]))  # the message asks for it
    message = _message(rows, found, whole=bool(fresh.all()))
    said: Figures = {} if message is None else {"message": message}
    return {"sampler_check": {**found.to_dict(), "rollouts": int(fresh.sum()), **said}}


def _message(rows: Rows, found: Figure, *, whole: bool) -> str | None:
    if found.value is None or found.low is None or found.high is None:
        return None
    if abs(found.value - 1) <= _TOLERANCE or found.low <= 1 <= found.high:
        return None
    truncated = whole and found.value < 1 and _is_truncated(rows)
    return f"{_NOT_SAMPLED}; {_TRUNCATED}" if truncated else _NOT_SAMPLED


def _is_truncated(rows: Rows) -> bool:
    """Whether log-ratios lie between that of a small surviving mass and 0, but for noise no wider than that."""
    counts = rows.histograms.get(str(Pair.TRAINER_INFERENCE))
    if counts is None or not np.any(counts):
        return False
    low, middle, high = (_log_ratio(counts, at) for at in (0.001, 0.5, 0.999))
    return low >= math.log(_LEAST_MASS) and middle <= 0 and high <= -low


def _log_ratio(counts: histogram.Counts, at: float) -> float:
    low, high = histogram.edges(histogram.quantile_bin(counts, at))
    return (low + high) / 2
