"""IS023: rows whose logprobs belong to another rollout of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS023",
    title="Mispaired rows within a group",
    meaning=(
        "The trainer logprobs of some rollouts have nothing to do with their inference logprobs but fit those of "
        "another rollout of the same group: the two columns were put together in the wrong order."
    ),
    consistent_with=("the rollouts of a prompt returned in another order than they were asked for",),
    no_evidence_of="a mismatch between the policies",
    action="pair trainer and engine by a request id, never by position: --trainer F --vllm F --on rollout_id",
    method=(
        "Rollouts of 4 or more tokens with a mean abs(d) above 0.3 are compared with the others of their group and "
        "length. Reported where another's inference logprobs leave less than 0.4 of it. Counts are of the sample."
    ),
    sources=("modelscope/ms-swift#7858", "huggingface/trl#6673"),
)

_FEWEST = 4
_OFF = 0.3
_BETTER = 0.4
_MOST_PAIRS = 20_000


def probe(tokens: Tokens) -> Array:
    """Return the rows of the rollouts that fit another one better."""
    if not tokens.rollouts:
        return np.zeros(0, dtype=np.int64)
    suspect = np.flatnonzero((tokens.lengths >= _FEWEST) & (tokens.mean_magnitude > _OFF))
    cells = np.stack([tokens.clusters[suspect], tokens.lengths[suspect]])
    order = np.lexsort(cells)
    splits = np.flatnonzero((np.diff(cells[:, order], axis=1) != 0).any(axis=0)) + 1
    found: list[int] = []
    pairs = 0
    for rows in np.split(suspect[order], splits):
        pairs += rows.size**2
        if rows.size > 1 and pairs <= _MOST_PAIRS:
            found.extend(_swapped(tokens, rows))
    return np.sort(np.array(found, dtype=np.int64))


def _swapped(tokens: Tokens, rows: Array) -> list[int]:
    """Rows of equal length whose trainer logprobs fit another's inference logprobs."""
    places = tokens.starts[rows][:, None] + np.arange(tokens.lengths[rows[0]])
    trainer, inference = tokens.trainer[places], tokens.inference[places]
    best = np.array([np.delete(np.abs(t - inference).mean(axis=1), i).min() for i, t in enumerate(trainer)])
    return [int(row) for row in rows[best < _BETTER * tokens.mean_magnitude[rows]]]


def judge(probed: Array, evidence: Evidence) -> Finding | None:
    """Report mispaired rollouts."""
    if not probed.size or evidence.found("IS003"):
        return None
    tokens = evidence.tokens
    return KIND.finding(
        "error",
        f"The trainer logprobs of {probed.size:,} of {tokens.rollouts:,} rollouts fit the inference logprobs of "
        "another rollout of their group and not their own.",
        rollouts=int(probed.size),
        tokens=int(tokens.lengths[probed].sum()),
        examples=tokens.example_rollouts(probed),
    )
