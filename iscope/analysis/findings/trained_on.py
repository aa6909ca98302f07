"""IS014: the numerator was trained on these very rollouts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.numbers import NO_ROLLOUT_ADVANTAGE
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.model import Finding

KIND = Kind(
    code="IS014",
    title="The numerator was trained on these rollouts",
    meaning=(
        "The log-ratios of a rollout pull together instead of cancelling: the policy in the numerator has learnt from "
        "these rollouts. A ratio of it corrects nothing, it repeats what the advantage said."
    ),
    consistent_with=(
        "rollouts scored after the trainer took steps on them: repeated epochs over old data, or logprobs recomputed "
        "too late",
        "another sampler than the logged probabilities say",
    ),
    no_evidence_of="a noisy engine or of lag alone: fresh rollouts have a variance ratio near 1 whatever the lag",
    action=(
        "record the trainer's logprobs before the first step on a batch; bound the ratio per token, since the "
        "sequence ratio is dominated by what was learnt"
    ),
    method=(
        "The variance ratio sum_i (sum_t (rho_t - 1))^2 / sum_i sum_t (rho_t - 1)^2 is 1 on fresh rollouts, where rho "
        "- 1 is a martingale difference under the sampler. Reported above 3, with and without the three heaviest "
        "rollouts, on 32 rollouts or more; where there are advantages they must correlate with the standardised sum "
        "of the log-ratios too (4 standard errors). Real dumps: 9 to 21 with training on the rollouts, 0.87 to 1.19 "
        "without."
    ),
    sources=("real dumps of a 135M model under GRPO: 1 to 8 steps on their own rollouts, and on others",),
)

_HIGH = 3.0
_FEWEST = 32
_SURE = 4.0


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report a variance ratio that training on the rollouts explains and nothing found before does."""
    if evidence.is_rounding or evidence.rows.rollouts < _FEWEST:
        return None
    if evidence.found("IS001", "IS003", "IS004", "IS006", "IS010", "IS016", "IS022", "IS023"):
        return None
    whole, light = evidence.variance_ratios
    if min(whole, light) < _HIGH:
        return None
    correlation = _with_advantage(evidence)
    if correlation is not None and correlation * math.sqrt(evidence.rows.rollouts) < _SURE:
        return None
    beside = "" if correlation is None else f"; their sums correlate with the advantage ({correlation:+.2f})"
    return KIND.finding(
        "warning",
        f"The variance ratio of trainer over inference is {whole:.1f} ({light:.1f} without the three heaviest "
        f"rollouts), fresh rollouts give 1{beside}.",
        rollouts=evidence.rows.rollouts,
        evidence={
            "variance_ratio": Figure(whole),
            "without_heaviest": Figure(light),
            "correlation_with_advantage": Figure.absent(NO_ROLLOUT_ADVANTAGE)
            if correlation is None
            else Figure(correlation),
        },
    )


def _with_advantage(evidence: Evidence) -> float | None:
    """Correlation of S / sqrt(sum d^2), cut to +-5, with the advantage; None without advantages that differ."""
    advantage = evidence.column("advantage")
    if advantage is None:
        return None
    rows = evidence.rows
    scale = np.sqrt(rows.pair("log_ratio_sq"))
    known = np.isfinite(advantage) & (scale > 0)
    drift = np.clip(rows.pair("log_ratio_sum")[known] / scale[known], -5, 5)
    if known.sum() < _FEWEST or np.ptp(advantage[known]) == 0 or np.ptp(drift) == 0:
        return None
    return float(np.corrcoef(drift, advantage[known])[0, 1])
