"""IS002: values at loss tokens that are no logprobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens, Unscored
    from iscope.model import Finding

KIND = Kind(
    code="IS002",
    title="Unusable logprobs",
    meaning=(
        "Loss tokens hold a value that cannot be a logprob: NaN, null, an infinity, a sentinel of -9000 or less, or a "
        "positive above 0.2. They are left out of every figure."
    ),
    consistent_with=(
        "broken logits in the engine: distrust the whole completion, not the one token",
        "vLLM's -9999 for a logprob of -inf, or a framework's for a missing one",
        "a misaligned column, for positive values above 0.2",
        "a column of losses (-log p) or of probabilities in place of logprobs, where very many are positive",
    ),
    no_evidence_of="a mismatch between the policies at the other tokens",
    action="drop these rollouts and look at what the engine logged, or the trainer computed, for them",
    method=(
        "Exact counts over the dump, one kind per token and side; positions are of the sample. An error where a "
        "sampled token has probability 0 under its own sampler, or where more than 1% of the loss tokens are "
        "unusable; else a warning. Where more than a quarter of the loss tokens are positive, the column is named."
    ),
    sources=("huggingface/trl#6166", "NVIDIA-NeMo/RL#2962", "vllm-project/vllm#11073", "vllm-project/vllm-ascend#2934"),
)

_MANY = 0.01
# Of the loss tokens, from which positive values are the column's, not a token's.
_COLUMN = 0.25
_OTHER = "a column of losses or probabilities"
_WORDS = {
    "null": "null",
    "nan": "NaN",
    "pos_inf": "+inf",
    "neg_inf": "-inf",
    "sentinel": "a sentinel (-9000 or less)",
    "positive": "positive above 0.2",
}


def probe(tokens: Tokens) -> Unscored:
    """Return those of the sample, to say where in a rollout they stand."""
    return tokens.unscored


def judge(probed: Unscored, evidence: Evidence) -> Finding | None:
    """Report any there are."""
    coverage = evidence.coverage
    by_side = coverage.tokens_unscored_by_side
    unscored = sum(coverage.tokens_unscored.values())
    if not unscored:
        return None
    rows = evidence.rows
    rollouts = int((rows["loss_tokens"] != rows["usable_tokens"]).sum()) + rows.without[0]
    listed = [
        f"{_WORDS.get(kind, kind)} {count:,} ({side})"
        for side, kinds in by_side.items()
        for kind, count in kinds.items()
        if count
    ]
    impossible = any(by_side.get("inference", {}).get(kind) for kind in ("neg_inf", "sentinel"))
    severe = impossible or unscored > _MANY * coverage.tokens_loss
    other = coverage.tokens_unscored.get("positive", 0) > _COLUMN * coverage.tokens_loss
    return KIND.finding(
        "error" if severe else "warning",
        f"{unscored:,} of {coverage.tokens_loss:,} loss tokens have no usable logprob: {', '.join(listed)}."
        + _positions(probed),
        title=f"{KIND.title}: {_OTHER}" if other else None,
        consistent_with=KIND.consistent_with[3] if other else _cause(coverage.tokens_unscored),
        action="write log p, which is never above 0: negate losses, take the log of probabilities" if other else None,
        tokens=unscored,
        rollouts=rollouts,
        examples=[
            {"rollout_id": rollout, "position": int(position)}
            for rollout, position in zip(probed.rollouts[:5], probed.position[:5], strict=True)
        ],
        evidence={"by_side": {side: {**kinds} for side, kinds in by_side.items()}},
    )


def _positions(found: Unscored) -> str:
    """Where in their rollouts they stand: the positions from the first to the last, and how many end one."""
    if not found.position.size:
        return ""
    low, middle, high = (int(np.quantile(found.position, share, method="inverted_cdf")) for share in (0, 0.5, 1))
    last = int((found.position == found.length - 1).sum())
    return (
        f" Of {found.position.size:,} in the sample the positions are {low:,} to {high:,}, {middle:,} in the median, "
        f"and {last:,} are a rollout's last token."
    )


def _cause(kinds: dict[str, int]) -> str:
    most = max(kinds, key=lambda kind: kinds[kind])
    return KIND.consistent_with[{"sentinel": 1, "neg_inf": 1, "positive": 2}.get(most, 0)]
