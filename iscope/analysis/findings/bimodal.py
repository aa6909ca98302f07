"""IS016: a minority of rollouts is catastrophic and the others are fine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.findings.statistics import chance_of_at_least
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS016",
    title="Bimodal: a minority of rollouts is catastrophic",
    meaning=(
        "Whole rollouts are far off while the others agree, with few in between. A mean over both describes neither."
    ),
    consistent_with=(
        "a fault of some requests: speculative decoding, expert parallelism, a corrupt cache block, one bad replica",
        (
            "a fault of some prompts, where the bad rollouts come in whole groups: a template, an image, a context "
            "too long"
        ),
    ),
    no_evidence_of="a noisy engine, whose rollouts differ by degrees",
    action=(
        "look at the listed rollouts, find what they share (prompt, replica, length), and drop them until it is fixed"
    ),
    method=(
        "Mean abs(d) of rollouts with 8 or more tokens: bad ones have 8 times the median and 0.3 nats or more. "
        "Reported from three bad ones and 1% on, at most half, where no more lie between 3 and 8 times the median. "
        "Prompt clusters: more groups have two bad rollouts than chance gives (below 1e-4). Counts are of the sample."
    ),
    sources=("NVIDIA-NeMo/RL#2100", "NVIDIA-NeMo/RL#4243", "vllm-project/vllm#53488"),
)

_FEWEST_TOKENS = 8
_TIMES = 8.0
_BETWEEN = 3.0
_FAR = 0.3
_FEWEST = 3
_SHARE = 0.01
_CHANCE = 1e-4


@dataclass(frozen=True)
class Modes:
    """Bad rollouts by row, how many lie between, how many were looked at, and the median of mean abs(d), nats."""

    bad: Array
    between: int
    rollouts: int
    median: float


def probe(tokens: Tokens) -> Modes | None:
    """Sort the rollouts by their mean abs(d)."""
    rows = np.flatnonzero(tokens.lengths >= _FEWEST_TOKENS)
    if rows.size < 10:
        return None
    means = tokens.mean_magnitude[rows]
    median = float(np.median(means))
    bad = (means > _TIMES * median) & (means > _FAR)
    between = (means > _BETWEEN * median) & ~bad
    return Modes(rows[bad], int(between.sum()), int(rows.size), median)


def judge(probed: Modes | None, evidence: Evidence) -> Finding | None:
    """Report two clear modes."""
    if probed is None or evidence.found("IS001", "IS003", "IS006", "IS009", "IS023"):
        return None
    bad, rollouts = probed.bad, probed.rollouts
    if bad.size < max(_FEWEST, _SHARE * rollouts) or 2 * bad.size > rollouts or probed.between > bad.size:
        return None
    tokens = evidence.tokens
    clustered = _clustered(tokens, bad, rollouts)
    groups = int(np.unique(tokens.clusters[bad]).size)
    where = f" They come from {groups:,} groups, more together than chance gives." if clustered else ""
    return KIND.finding(
        "warning",
        f"{bad.size:,} of {rollouts:,} rollouts have a mean abs(d) of "
        f"{float(np.median(tokens.mean_magnitude[bad])):.2g} nats in the median, the others {probed.median:.2g}, and "
        f"{probed.between:,} lie between.{where}",
        title="Bimodal: prompt clusters of catastrophic rollouts" if clustered else None,
        consistent_with=KIND.consistent_with[1] if clustered else None,
        rollouts=int(bad.size),
        tokens=int(tokens.lengths[bad].sum()),
        examples=tokens.example_rollouts(bad),
        evidence={
            "share": Figure(bad.size / rollouts),
            "median_abs": Figure(probed.median),
            "median_abs_of_bad": Figure(float(np.median(tokens.mean_magnitude[bad]))),
            "between": probed.between,
            "groups": groups,
        },
    )


def _clustered(tokens: Tokens, bad: Array, rollouts: int) -> bool:
    """Whether pairs of bad rollouts share a group more often than pairs of any rollouts do."""
    _, sizes = np.unique(tokens.clusters, return_counts=True)
    _, of_bad = np.unique(tokens.clusters[bad], return_counts=True)
    pairs = int((sizes * (sizes - 1)).sum()) / max(rollouts * (rollouts - 1), 1)
    together = int((of_bad - 1).sum())
    return together >= _FEWEST and chance_of_at_least(together, bad.size, min(pairs * (bad.size - 1), 0.9)) < _CHANCE
