"""IS009: the loss mask covers tokens that were never sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS009",
    title="Loss mask covers prompt or tool tokens",
    meaning=(
        "Whole spans of loss tokens have the inference logprob 0 while the trainer is not certain of them: nothing "
        "was sampled there, yet they train."
    ),
    consistent_with=("tool output, observations or prompt tokens inside the loss mask",),
    no_evidence_of="a mismatch between the policies on the tokens that were sampled",
    action="set the loss mask to false on every token that the policy did not sample",
    method=(
        "Runs of 8 or more consecutive scored tokens of one rollout with the inference logprob exactly 0, over which "
        "the trainer's mean is below -0.3. Counts are of the sample."
    ),
    sources=("NovaSky-AI/SkyRL#354", "radixark/miles#2476", "PrimeIntellect-ai/prime-rl#1329"),
)

_SPAN = 8
_UNSURE = -0.3


@dataclass(frozen=True)
class Spans:
    """Spans of zeros: where each begins, and how long it is."""

    starts: Array
    lengths: Array


def probe(tokens: Tokens) -> Spans:
    """Find the spans of zeros of which the trainer is not certain."""
    zeros = np.flatnonzero(tokens.inference == 0)
    if zeros.size < _SPAN:
        return Spans(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    rows = tokens.row[zeros]
    begins = np.flatnonzero(np.concatenate([[True], (np.diff(zeros) != 1) | (np.diff(rows) != 0)]))
    lengths = np.diff(np.append(begins, zeros.size))
    means = np.add.reduceat(tokens.trainer[zeros].astype(np.float64), begins) / lengths
    chosen = (lengths >= _SPAN) & (means < _UNSURE)
    return Spans(zeros[begins[chosen]], lengths[chosen])


def judge(probed: Spans, evidence: Evidence) -> Finding | None:
    """Report spans, unless the whole column is 0."""
    tokens = evidence.tokens
    covered = int(probed.lengths.sum())
    if not covered or covered > 0.9 * tokens.size:
        return None
    rollouts = int(np.unique(tokens.row[probed.starts]).size)
    return KIND.finding(
        "error",
        f"{probed.starts.size:,} spans of {_SPAN} or more loss tokens, {covered:,} of {tokens.size:,} tokens in "
        f"{rollouts:,} of {tokens.rollouts:,} rollouts, have the inference logprob 0 where the trainer is not certain.",
        title=None if tokens.masked else "Loss mask missing: prompt or tool tokens train",
        action=None if tokens.masked else "write a loss_mask that is false on every token the policy did not sample",
        tokens=covered,
        rollouts=rollouts,
        examples=tokens.examples(probed.starts),
        evidence={"spans": int(probed.starts.size), "longest": int(probed.lengths.max())},
    )
