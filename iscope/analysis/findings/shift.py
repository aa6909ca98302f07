"""IS006: one side is off by one token."""

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
    code="IS006",
    title="Shift by one token",
    meaning=(
        "In some rollouts the trainer's logprob of a token agrees with the inference logprob of its neighbour and not "
        "with its own: the columns are misaligned."
    ),
    consistent_with=(
        "logits of position t taken for token t instead of t + 1, an extra value for the first or the end token, or "
        "a label roll over a padded or packed buffer",
    ),
    no_evidence_of="a mismatch between the policies",
    action="align both columns to the sampled tokens: logits at t - 1 score token t; then read the dump again",
    method=(
        "Per rollout of 8 or more scored tokens: mean of min(abs(difference), 3) between trainer and inference "
        "logprobs in place and moved by one token either way. Reported where moving leaves less than 0.4 of it and it "
        "is above 0.15 nats in place. Counts are of the sample."
    ),
    sources=(
        "AI-Hypercomputer/maxtext#2103",
        "verl-project/verl#6475",
        "facebookresearch/metaseq#87",
    ),
)

FEWEST = 8
CUT = 3.0
BETTER = 0.4
OFF = 0.15


@dataclass(frozen=True)
class Shifts:
    """Rollouts whose columns fit better when moved: the trainer one token late, and one token early."""

    late: Array
    early: Array


def probe(tokens: Tokens) -> Shifts:
    """Compare the columns in place and moved by one token."""
    nothing = Shifts(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    if not tokens.rollouts:
        return nothing
    suspect = np.flatnonzero((tokens.lengths >= FEWEST) & (tokens.mean_magnitude > OFF))
    if not suspect.size:
        return nothing
    part = tokens.part(suspect)
    in_place = part.sum(np.minimum(part.magnitude, CUT)) / part.lengths
    late, early = _moved(part, part.trainer, part.inference), _moved(part, part.inference, part.trainer)
    return Shifts(
        suspect[(late < BETTER * in_place) & (late < early)], suspect[(early < BETTER * in_place) & (early <= late)]
    )


def _moved(tokens: Tokens, later: Array, earlier: Array) -> Array:
    """Mean difference between a token of one column and the token before it of the other, [N]."""
    differences = np.zeros(tokens.size, dtype=np.float32)
    differences[1:] = np.minimum(np.abs(later[1:] - earlier[:-1]), CUT)
    differences[tokens.starts] = 0
    return np.asarray(tokens.sum(differences) / (tokens.lengths - 1))


def judge(probed: Shifts, evidence: Evidence) -> Finding | None:
    """Report shifted rollouts."""
    tokens = evidence.tokens
    shifted = np.sort(np.concatenate([probed.late, probed.early]))
    if not shifted.size or evidence.found("IS003"):
        return None
    return KIND.finding(
        "error",
        f"In {shifted.size:,} of {tokens.rollouts:,} rollouts the columns fit when moved by one token: the trainer "
        f"logprobs come one token late in {probed.late.size:,} and one token early in {probed.early.size:,}.",
        rollouts=int(shifted.size),
        tokens=int(tokens.lengths[shifted].sum()),
        examples=tokens.example_rollouts(shifted),
        evidence={"late": int(probed.late.size), "early": int(probed.early.size)},
    )
