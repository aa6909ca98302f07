"""IS017: most tokens agree as in a dense model and a few are far off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.order_statistics import quantiles
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS017",
    title="Heavy tails: mixture of experts or a quantised engine",
    meaning=(
        "The bulk of the tokens agrees as well as in a dense model, but single tokens all over the rollouts are off "
        "by a factor of 2 and more, far more than the bulk's noise gives."
    ),
    consistent_with=(
        "experts that trainer and engine route differently (about one router in ten disagrees per forward pass)",
        "activations of a quantised engine that saturate",
    ),
    no_evidence_of="a fault of single rollouts, prompts or positions: the far tokens are scattered",
    action="replay the engine's routing in the trainer (routing replay), and bound the token ratio on both sides",
    method=(
        "Over tokens with q below 0.9 of rollouts not known to lag, abs(d) / (1 - q) in units of its median: reported "
        "where its 99.9% quantile is above 25 and tokens with abs(d) above ln 2 are 0.1% or more, in a tenth of the "
        "rollouts or more. Information below the level of healthy mixture-of-experts runs (k3 0.005), else a warning. "
        "Real dense dumps: 8 to 9 in bf16, 13 in int8, up to 23 with lag."
    ),
    sources=("NVIDIA/Megatron-LM#4168", "areal-project/AReaL#1207", "inclusionAI/AReno#522", "NVIDIA-NeMo/RL#2269"),
)

_TAIL = 25.0
_SHARE = 1e-3
_SPREAD = 0.1
_HEALTHY_EXPERTS = 0.005
_MOST = 100_000
_SHADOWS = ("IS001", "IS003", "IS004", "IS006", "IS007", "IS009", "IS011", "IS012", "IS014", "IS016", "IS023")


@dataclass(frozen=True)
class Tail:
    """The tail of the gap.

    Attributes:
        quantile: its 99.9% quantile over its median.
        far: places of the doubtful tokens off by more than a factor of 2.
        doubtful: how many doubtful tokens there are.
        touched: rollouts with a far token.
        rollouts: rollouts looked at.
    """

    quantile: float
    far: Array
    doubtful: int
    touched: int
    rollouts: int


def probe(tokens: Tokens) -> Tail | None:
    """Measure the tail of the rollouts that are not known to lag."""
    tokens = tokens.head
    fresh = _fresh(tokens)
    chosen = tokens.doubtful if fresh.all() else tokens.doubtful & fresh[tokens.row]
    far = np.flatnonzero(chosen & (tokens.magnitude > math.log(2)))
    doubtful = int(chosen.sum())
    touched = int(np.unique(tokens.row[far]).size)
    if far.size < max(_SHARE * doubtful, 5) or touched < _SPREAD * fresh.sum():
        return None
    looked_at = np.flatnonzero(chosen)[:_MOST]
    gap = tokens.magnitude[looked_at] / -np.expm1(tokens.inference[looked_at])
    middle, high = quantiles(gap, 0.5, 0.999)
    return Tail(float(high / max(middle, 1e-9)), far, doubtful, touched, int(fresh.sum()))


def judge(probed: Tail | None, evidence: Evidence) -> Finding | None:
    """Report a tail that the bulk does not explain."""
    if probed is None or probed.quantile < _TAIL or evidence.found(*_SHADOWS):
        return None
    share = probed.far.size / probed.doubtful
    return KIND.finding(
        "warning" if evidence.k3 > _HEALTHY_EXPERTS else "information",
        f"{probed.far.size:,} of {probed.doubtful:,} tokens with q below 0.9 ({share:.2%}) are off by more than a "
        f"factor of 2, in {probed.touched:,} of {probed.rollouts:,} rollouts; the 99.9% quantile of abs(d) / (1 - q) "
        f"is {probed.quantile:.0f} times its median.",
        tokens=int(probed.far.size),
        rollouts=probed.touched,
        examples=evidence.tokens.head.examples(probed.far),
        evidence={"share": Figure(share), "quantile_over_median": Figure(probed.quantile)},
    )


def _fresh(tokens: Tokens) -> Array:
    trainer, policy = tokens.settings("trainer_version"), tokens.settings("policy_version")
    if trainer is None or policy is None:
        return np.ones(tokens.rollouts, dtype=bool)
    return np.asarray(~(np.isfinite(trainer - policy) & (trainer != policy)))
