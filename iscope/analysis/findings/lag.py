"""IS013: the trainer's logprobs are of a later policy than the sampler's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.model import Finding

KIND = Kind(
    code="IS013",
    title="Policy lag",
    meaning=(
        "Rollouts are scored by a trainer of another version than the one that sampled them, so the mismatch holds "
        "the engine's noise and the policy's own movement."
    ),
    consistent_with=("policy lag: asynchronous rollouts, or a replay of old ones",),
    no_evidence_of="an inference engine at fault: what the engine adds shows at lag 0 only",
    action="cut the lag, or choose a correction by the breakdown by lag: iscope analyze DUMP --by lag",
    method=(
        "trainer_version - policy_version as recorded. A warning where k3 of the lagging rollouts is above the "
        "healthy level and 1.5 times that of the rollouts at lag 0, if there are any; else information."
    ),
    sources=("NovaSky-AI/SkyRL docs (pi_old/mu x pi/pi_old)", "arXiv 2605.12070"),
)

_MORE = 1.5


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report recorded lag, with what it costs."""
    lagging = evidence.lagging
    if not lagging.any():
        return None
    with_lag, without = evidence.k3_of(lagging), evidence.k3_of(evidence.in_step)
    matters = with_lag > evidence.levels.k3 and with_lag > _MORE * without
    return KIND.finding(
        "warning" if matters else "information",
        _shows(evidence, with_lag, without),
        tokens=int(evidence.rows.n[lagging].sum()),
        rollouts=int(lagging.sum()),
        evidence={"k3_lagging": Figure(with_lag), "k3_in_step": _k3(evidence, without)},
    )


def _k3(evidence: Evidence, value: float) -> Figure:
    return Figure(value) if evidence.in_step.any() else Figure.absent("no rollout at lag 0")


def _shows(evidence: Evidence, with_lag: float, without: float) -> str:
    lagging, lags = evidence.lagging, evidence.lags
    how_far = ""
    if lags is not None and np.isfinite(lags[lagging]).any():
        known = lags[lagging & np.isfinite(lags)]
        low, high = float(known.min()), float(known.max())
        how_far = f" by {low:g}" if low == high else f" by {low:g} to {high:g}"
    beside = f", {without:.2g} at lag 0" if evidence.in_step.any() else ""
    return (
        f"In {int(lagging.sum()):,} of {lagging.size:,} rollouts trainer_version differs from policy_version{how_far}; "
        f"k3 is {with_lag:.2g} nats per token there{beside}."
    )
