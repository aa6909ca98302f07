"""IS020: a bound on the sequence ratio that long rollouts cannot meet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iscope.analysis.findings.bounds import bounds_of
from iscope.analysis.findings.kind import Kind
from iscope.analysis.order_statistics import quantiles
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.bounds import Bound
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS020",
    title="Length trap: long rollouts hit the bound",
    meaning=(
        "A bound on the sequence ratio hits long rollouts far more often than short ones: the sum of the log-ratios "
        "grows with the length, its mean as T and its noise as sqrt(T). The correction trains on short rollouts."
    ),
    consistent_with=("a product of ratios over many tokens, each of which is within a few percent of 1",),
    no_evidence_of="long rollouts being more off-policy per token",
    action="bound the ratio per token, or use the geometric mean with bounds wider than its noise",
    method=(
        "Share of rollouts beyond a bound on exp(S) in the longest third less that in the shortest third: reported "
        "from 0.1 and 4 standard errors on. Above information only for a recipe that was named."
    ),
    sources=("huggingface/trl#4772", "NVIDIA-NeMo/RL#2269", "verl-project/verl docs/algo/rollout_corr_math.md"),
)

_DIFFERENCE = 0.1
_SURE = 4.0
_FEWEST = 10


@dataclass(frozen=True)
class Trap:
    """A bound, and the shares of the shortest and the longest third of the rollouts that it hits."""

    bound: Bound
    short: float
    long: float


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report the bound that is hardest on long rollouts."""
    thirds = _thirds(evidence)
    if thirds is None:
        return None
    bounds = [b for recipe in evidence.recipes for b in bounds_of(recipe) if b.level == "sequence"]
    found = [trap for bound in bounds if (trap := _trap(bound, thirds)) is not None]
    if not found:
        return None
    worst = min(found, key=lambda trap: (not trap.bound.named, trap.short - trap.long, trap.bound.recipe.recipe.spec))
    bound, short, long = worst.bound, worst.short, worst.long
    more = f" {len(found) - 1} other bounds do the same." if len(found) > 2 else ""
    return KIND.finding(
        "warning" if bound.named else "information",
        f"The {bound} hits {long:.0%} of the longest third of the rollouts and {short:.0%} of the "
        f"shortest third.{more}",
        title=f"Length trap: {bound.side} bound {math.exp(bound.log):.4g} on the sequence ratio",
        rollouts=int(bound.hit.sum()),
        evidence={"spec": bound.recipe.recipe.spec, "hit_short": Figure(short), "hit_long": Figure(long)},
    )


def _thirds(evidence: Evidence) -> tuple[Array, Array] | None:
    """bool [N] each, the shortest and the longest third of the rollouts; None where their lengths hardly differ."""
    n = evidence.rows.n
    low, high = quantiles(n, 1 / 3, 2 / 3)
    short, long = n <= low, n > high
    return (short, long) if min(int(short.sum()), int(long.sum())) >= _FEWEST else None


def _trap(bound: Bound, thirds: tuple[Array, Array]) -> Trap | None:
    """The shares that a bound hits; None where the longest third is not hit much more, or chance could do it."""
    short, long = (np.count_nonzero(bound.hit & third) / np.count_nonzero(third) for third in thirds)
    error = math.sqrt(sum(s * (1 - s) / int(third.sum()) for s, third in zip((short, long), thirds, strict=True)))
    surely = long - short >= max(_DIFFERENCE, _SURE * error)
    return Trap(bound, short, long) if surely else None
