"""IS019: a bound on the geometric ratio that is narrower than the dump's noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from iscope.analysis.findings.bounds import bounds_of
from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.bounds import Bound
    from iscope.analysis.findings.evidence import Evidence
    from iscope.model import Finding

KIND = Kind(
    code="IS019",
    title="Bounds narrower than the noise",
    meaning=(
        "A bound on the geometric ratio hits a large part of the rollouts because it lies within the noise of their "
        "mean log-ratio, which is sd(d) / sqrt(T) at length T. It sorts rollouts by length and luck, not by how "
        "off-policy they are."
    ),
    consistent_with=("bounds taken from a run with less noise or longer rollouts",),
    no_evidence_of="rollouts that are off-policy: those that pass are no better",
    action="widen the bound until noise alone keeps nine rollouts of ten, or set it per length",
    method=(
        "Bounds on exp(G) that hit 20% of the rollouts or more where a normal distribution with the dump's mean and "
        "standard deviation of d predicts at least half of the hits. Above information only for a recipe that was "
        "named."
    ),
    sources=("verl-project/verl docs/algo/rollout_corr_math.md", "NovaSky-AI/SkyRL#1665", "NVIDIA-NeMo/RL#4243"),
)

_SHARE = 0.2
_EXPLAINED = 0.5


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report the bound that noise hits most."""
    hit = [
        (bound, share)
        for recipe in evidence.recipes
        for bound in bounds_of(recipe)
        if bound.level == "geometric" and (share := float(bound.hit.mean())) >= _SHARE
    ]
    judged = [(bound, share, _expected(bound, evidence)) for bound, share in hit]
    found = [entry for entry in judged if entry[2] >= _EXPLAINED * entry[1]]
    if not found:
        return None
    bound, share, expected = min(found, key=lambda entry: (not entry[0].named, -entry[1], entry[0].recipe.recipe.spec))
    more = f" So do {len(found) - 1} other bounds." if len(found) > 2 else ""
    return KIND.finding(
        "warning" if bound.named else "information",
        f"The {bound} hits {share:.0%} of the rollouts, and noise alone would hit {expected:.0%}.{more}",
        title=f"Bounds narrower than the noise: {bound.side} bound {math.exp(bound.log):.4g}",
        rollouts=int(bound.hit.sum()),
        evidence={"spec": bound.recipe.recipe.spec, "hit": Figure(share), "hit_by_noise": Figure(expected)},
    )


def _expected(bound: Bound, evidence: Evidence) -> float:
    """Share of the rollouts whose mean log-ratio noise carries beyond the bound."""
    rows, pair = evidence.rows, bound.recipe.recipe.weight.pair
    mean = rows.pair_total("log_ratio_sum", pair) / rows.tokens
    spread = math.sqrt(max(rows.pair_total("log_ratio_sq", pair) / rows.tokens - mean**2, 0.0))
    if spread == 0:
        return 0.0
    lengths = np.flatnonzero(np.bincount(rows.n))
    away = (bound.log - mean) * np.sqrt(lengths / 2) / spread
    tails = [0.5 * math.erfc(z if bound.side == "upper" else -z) for z in away.tolist()]
    of_length = np.zeros(int(lengths[-1]) + 1)
    of_length[lengths] = tails
    return float(of_length[rows.n].mean())
