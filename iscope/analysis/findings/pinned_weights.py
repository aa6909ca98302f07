"""IS011: the mismatch depends on the step and not on the recorded lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.findings.lossy_sync import evidence_of
from iscope.analysis.findings.steps import climb
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.model import Finding

KIND = Kind(
    code="IS011",
    title="Stale weights: the sampler stays on old ones",
    meaning=(
        "The mismatch grows with the step, and the lag that the dump records makes no difference to it: a rollout of "
        "lag 0 is as far off as one of lag 4. The sampler does not have the weights that its version says."
    ),
    consistent_with=(
        "a sampler pinned to old weights: an adapter that is never delivered, a sync that sends frozen tensors only, "
        "weights not restored after the engine slept",
        "a prefix cache that keeps what old weights computed; fresh prompts are clean then",
    ),
    no_evidence_of="policy lag, however much it looks like it",
    action="compare a checksum of a weight in the trainer with the same one in the engine after a sync",
    method=(
        "The line of IS012 over all rollouts, with the recorded lag as a second explanation. Reported where the "
        "step's effect is 4 standard errors and a rise by half or more, and the lag's below 2."
    ),
    sources=("verl-project/verl#7495", "NovaSky-AI/SkyRL#2246", "NVIDIA-NeMo/RL#4018"),
)

_NO_EFFECT = 2.0


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report a climb with the step that several lags share."""
    lags = evidence.lags
    if lags is None or evidence.is_rounding or evidence.found("IS001", "IS003", "IS006"):
        return None
    if np.unique(lags[np.isfinite(lags)]).size < 2:
        return None
    found = climb(evidence, np.isfinite(lags), lags)
    if found is None or not found.climbs or found.lag_z >= _NO_EFFECT:
        return None
    shows = (
        f"k3 goes from {found.k3[0]:.2g} to {found.k3[1]:.2g} nats per token over steps {found.steps[0]:g} to "
        f"{found.steps[1]:g} ({found.z:.0f} standard errors), and the recorded lag changes nothing beside it "
        f"({found.lag_z:.1f} standard errors)."
    )
    return KIND.finding(
        "warning", shows, rollouts=found.rollouts, evidence=evidence_of(found) | {"lag_z": Figure(found.lag_z)}
    )
