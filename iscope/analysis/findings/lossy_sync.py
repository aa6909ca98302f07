"""IS012: at lag 0 the engine falls behind the trainer, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iscope.analysis.findings.kind import Kind
from iscope.analysis.findings.steps import climb
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.steps import Climb
    from iscope.model import Finding

KIND = Kind(
    code="IS012",
    title="A sync that loses updates: stale weights at lag 0",
    meaning=(
        "Rollouts whose trainer and sampler are recorded to have the same version drift apart over the steps. The "
        "first step is healthy, so engine and trainer compute the same; what the sampler gets at each sync is not the "
        "whole update."
    ),
    consistent_with=(
        "a weight sync that loses updates: fp32 masters cast to bf16, whose steps are larger than most updates; "
        "merged LoRA rounded to the bf16 grid; an adapter or a tensor that is never sent",
        "a KV or prefix cache that keeps what old weights computed",
    ),
    no_evidence_of=(
        "policy lag, since these rollouts have none, or of a noisy engine, which would show from the first step"
    ),
    action=(
        "compare a checksum of a weight in the trainer with the same one in the engine after a sync, score with the "
        "weights the engine got (the bf16 cast), and reset the prefix cache after each update"
    ),
    method=(
        "abs(d) of each group at lag 0, over what the dump's mean by bucket of q lets expect, against the step: a "
        "weighted line through its logarithm, standard errors between groups. Reported where it rises by half or more "
        "from the first step to the last and the slope is 4 standard errors or more. On real dumps: a rise of 2.2 "
        "with fp32 masters against a bf16 engine over 5 steps, 1.0 with the masters cast to bf16."
    ),
    sources=("verl-project/verl#7495", "NVIDIA-NeMo/RL#3696", "NVIDIA-NeMo/RL#4018", "huggingface/trl#5312"),
)


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report a climb at recorded lag 0."""
    if not evidence.versions_known or evidence.is_rounding or evidence.found("IS001", "IS003", "IS006", "IS011"):
        return None
    found = climb(evidence, evidence.in_step)
    if found is None or not found.climbs:
        return None
    return KIND.finding("warning", _shows(found), rollouts=found.rollouts, evidence=evidence_of(found))


def _shows(found: Climb) -> str:
    return (
        f"At recorded lag 0 k3 goes from {found.k3[0]:.2g} to {found.k3[1]:.2g} nats per token over steps "
        f"{found.steps[0]:g} to {found.steps[1]:g} ({found.rise:.1f} times the abs(d) that q lets expect, "
        f"{found.z:.0f} standard errors), while the engine's own mean -log p goes from {found.surprise[0]:.2f} to "
        f"{found.surprise[1]:.2f}."
    )


def evidence_of(found: Climb) -> dict[str, Any]:
    """The figures of a climb."""
    return {
        "rise": Figure(found.rise),
        "z": Figure(found.z),
        "k3_first": Figure(found.k3[0]),
        "k3_last": Figure(found.k3[1]),
        "minus_log_q_first": Figure(found.surprise[0]),
        "minus_log_q_last": Figure(found.surprise[1]),
        "step_first": found.steps[0],
        "step_last": found.steps[1],
    }
