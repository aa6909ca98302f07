"""IS025: the mismatch rises over the steps, and no versions say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.findings.lossy_sync import evidence_of
from iscope.analysis.findings.steps import climb

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.model import Finding

KIND = Kind(
    code="IS025",
    title="Drift: the mismatch rises over the steps",
    meaning=(
        "The mismatch rises from step to step. The dump has no policy versions, so lag and sync cannot be told apart."
    ),
    consistent_with=(
        "growing policy lag, a weight sync that loses updates, or engine state that outlives the weights",
        "a policy that becomes less certain",
    ),
    no_evidence_of="a fixed difference between the two implementations, which would not move",
    action="record policy_version and trainer_version with every rollout, which tells lag from a faulty sync",
    method="The line of IS012 over all rollouts of a dump without versions, with the same thresholds.",
    sources=("vllm-project/vime#64", "allenai/open-instruct#1473", "sail-sg/Precision-RL#10"),
)


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report a climb where no versions are known."""
    if evidence.versions_known or evidence.is_rounding or evidence.found("IS001", "IS003", "IS006"):
        return None
    found = climb(evidence, np.ones(evidence.rows.rollouts, dtype=bool))
    if found is None or not found.climbs:
        return None
    shows = (
        f"k3 goes from {found.k3[0]:.2g} to {found.k3[1]:.2g} nats per token over steps {found.steps[0]:g} to "
        f"{found.steps[1]:g}: abs(d) rises to {found.rise:.1f} times what q lets expect, {found.z:.0f} standard errors."
    )
    return KIND.finding("warning", shows, rollouts=found.rollouts, evidence=evidence_of(found))
