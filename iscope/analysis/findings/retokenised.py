"""IS008: the two sides hold different tokens for one rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.model import Finding

KIND = Kind(
    code="IS008",
    title="Retokenised ids: the sides disagree on the tokens",
    meaning=(
        "For some rollouts the token ids of the two sides differ, or one side has more tokens. Their logprobs are of "
        "different tokens; the rollouts were left out, never cut to the shorter side."
    ),
    consistent_with=(
        "completions decoded to text and encoded again for the trainer",
        "a stop string trimmed from the ids but not from the logprobs, or an end token appended on one side",
        "padding counted on one side",
    ),
    no_evidence_of="a mismatch between the policies",
    action="hand the engine's token ids to the trainer instead of text, and mask what was appended",
    method=(
        "Exact counts of paired rollouts whose ids or lengths differ. A warning; an error from 5% of the rollouts on."
    ),
    sources=("huggingface/trl#5144", "NVIDIA/TensorRT-LLM#18190", "stanford-cs336/assignment5-alignment#15"),
)

_REASONS = {"token_ids_differ": "other token ids", "lengths_differ": "another length"}
_MANY = 0.05


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report rollouts that were left out for their tokens."""
    excluded = evidence.coverage.rollouts_excluded
    counts = {reason: excluded[reason] for reason in _REASONS if excluded.get(reason)}
    rollouts = sum(counts.values())
    if not rollouts:
        return None
    read = evidence.coverage.rollouts_read
    told = " and ".join(f"{count:,} have {_REASONS[reason]} on the two sides" for reason, count in counts.items())
    return KIND.finding(
        "error" if rollouts >= _MANY * read else "warning",
        f"Of {read:,} rollouts {told}; they were left out.",
        consistent_with=None if "token_ids_differ" in counts else KIND.consistent_with[1],
        rollouts=rollouts,
        evidence={**counts, "share": Figure(rollouts / read)},
    )
