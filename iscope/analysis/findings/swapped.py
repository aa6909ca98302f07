"""IS010: trainer and inference columns in each other's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.findings.statistics import Estimate, ratio
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.model import Finding

KIND = Kind(
    code="IS010",
    title="Swapped columns: trainer and inference",
    meaning=(
        "The mean ratio inference over trainer is 1 and the mean ratio trainer over inference is above 1. The first "
        "is what sampling from the trainer column's policy gives: the columns stand in each other's place."
    ),
    consistent_with=("trainer and inference columns swapped when the dump was written or read",),
    no_evidence_of="a biased engine",
    action="swap them: --columns trainer=INFERENCE_COLUMN,inference=TRAINER_COLUMN, or exchange --trainer and --vllm",
    method=(
        "E[rho] = 1 over tokens sampled from the denominator. Reported where mean rho - 1 is above 2e-4 and 4 "
        "standard errors between groups above 0, the mean of 1 / rho - 1 within 2.5 of 0 and below a fifth of it, and "
        "the variance ratio of 1 / rho below 3. Real dumps when swapped: 5 to 10 standard errors."
    ),
    sources=(
        "E_mu[pi / mu] = 1, the identity of importance sampling",
        "verl-project/verl docs/algo/rollout_corr_math.md",
    ),
)

_LARGE = 2e-4
_SURE = 4.0
_UNSURE = 2.5
_SMALL_PART = 0.2
_FRESH = 3.0
_CUT = 10.0


@dataclass(frozen=True)
class Directions:
    """Mean rho - 1 and mean 1 / rho - 1 by group, and the variance ratio of the second."""

    forward: Estimate
    backward: Estimate
    variance_ratio: float


def probe(tokens: Tokens) -> Directions:
    """Measure the mean ratio both ways."""
    tokens = tokens.head
    d = np.clip(tokens.log_ratio, -_CUT, _CUT)
    weight = tokens.lengths.astype(np.float64)
    forward, backward = np.expm1(d), np.expm1(-d)
    sums = tokens.sum(backward)
    squares = float(tokens.sum(backward * backward).sum())
    return Directions(
        ratio(tokens.sum(forward), weight, tokens.clusters),
        ratio(sums, weight, tokens.clusters),
        float((sums**2).sum()) / squares if squares > 0 else 0.0,
    )


def judge(probed: Directions, evidence: Evidence) -> Finding | None:
    """Report a ratio that averages to 1 in the other direction only."""
    if evidence.found("IS001", "IS003", "IS004", "IS006", "IS009", "IS022", "IS023") or evidence.is_rounding:
        return None
    forward, backward = probed.forward, probed.backward
    if forward.value < _LARGE or forward.z() < _SURE or probed.variance_ratio > _FRESH:
        return None
    if abs(backward.z()) > _UNSURE or abs(backward.value) > _SMALL_PART * forward.value:
        return None
    return KIND.finding(
        "error",
        f"The mean ratio trainer over inference is {1 + forward.value:.5f}, {forward.z():.0f} standard errors from 1; "
        f"the mean ratio inference over trainer is {1 + backward.value:.5f}, within {abs(backward.z()):.1f} of 1.",
        rollouts=evidence.tokens.head.rollouts,
        evidence={
            "mean_ratio_less_1": Figure(forward.value),
            "mean_inverse_ratio_less_1": Figure(backward.value),
            "z": Figure(forward.z()),
        },
    )
