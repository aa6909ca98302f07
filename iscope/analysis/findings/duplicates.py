"""IS022: rollouts that are copies of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS022",
    title="Duplicated rollouts",
    meaning=(
        "Rollouts have the same inference logprobs bit by bit, although the chance of sampling such a completion "
        "twice is next to nothing. The batch is smaller than it looks."
    ),
    consistent_with=(
        "engine replicas started with one seed, rollouts written twice, or files read twice under two names",
    ),
    no_evidence_of="a policy that repeats itself: short completions that it is nearly certain of are not counted",
    action="seed every engine replica and request differently, and drop the copies",
    method=(
        "Rollouts of one step with equal lengths, scored tokens and sum of inference logprobs, whose own probability "
        "exp(sum of inference logprobs) is below 1e-9 divided by the number of rollouts: by chance not even one such "
        "pair is expected. Exact over the dump. A warning; an error from 5% of the rollouts on."
    ),
    sources=("modelscope/ms-swift#7219", "vllm-project/vllm#11953", "huggingface/trl#7040"),
)

_UNLIKELY = 1e-9
_MANY = 0.05
# A rollout that is trained on again at a later step, or by a later version, is no copy.
_CONTENT = ("inference_logprob_sum", "scored", "tokens", "step", "trainer_version")


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report copies of rollouts that chance does not repeat."""
    rows = evidence.rows
    rare = rows["inference_logprob_sum"] < np.log(_UNLIKELY / rows.rollouts)
    copies = _copies(evidence, np.flatnonzero(rare))
    if not copies.size:
        return None
    return KIND.finding(
        "error" if copies.size >= _MANY * rows.rollouts else "warning",
        f"{copies.size:,} of {rows.rollouts:,} rollouts repeat the inference logprobs of another one bit by bit.",
        rollouts=int(copies.size),
        tokens=int(rows.n[copies].sum()),
        examples=[{"rollout_id": rows.frame["rollout_id"][int(row)], "position": 0} for row in copies[:5]],
        evidence={"share": Figure(copies.size / rows.rollouts)},
    )


def _copies(evidence: Evidence, rare: Array) -> Array:
    """Rows that equal one before them, in the ledger's order."""
    rows = evidence.rows
    sums = rows["inference_logprob_sum"][rare]
    ordered = np.sort(sums)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not repeated.size:
        return rare[:0]
    rare = rare[np.isin(sums, repeated)]
    content = [name for name in _CONTENT if name in rows]
    first = (
        rows.frame.chosen(rare).select(content).select(pl.struct(content).is_first_distinct()).to_series().to_numpy()
    )
    return np.asarray(rare[~first])
