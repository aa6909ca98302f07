"""IS015: engine and trainer differ from the first step on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.order_statistics import median
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS015",
    title="Offset at lag 0: a quantised engine or another implementation",
    meaning=(
        "The mismatch is far above that of healthy engines although both sides have the same weights, in all rollouts "
        "alike and from the first step on."
    ),
    consistent_with=(
        "a quantised engine (int8, fp8, NVFP4) against an unquantised trainer",
        "another RoPE or YaRN scaling, attention or vocabulary layout on one side",
        "a constant left out of the log-softmax on one side",
    ),
    no_evidence_of="stale weights, which start small and grow, or of a fault in single rollouts",
    action=(
        "score one rollout in the engine and in the trainer at the same weights and precision, and compare layer by "
        "layer; compare the two configs (quantisation, rope_scaling, max_position_embeddings)"
    ),
    method=(
        "k3 over the rollouts of the first step that are at recorded lag 0 (or of unknown lag) is above the large "
        "limit, 0.015, which prime-rl asks for before a model is merged; or the median log-ratio of tokens with q "
        "below 0.9 is off 0 by more than 0.02 nats and by more than its median absolute deviation, on nine rollouts "
        "of ten. Real dumps: 0.037 with an int8 engine, 0.002 with bf16."
    ),
    sources=(
        "PrimeIntellect-ai/prime-rl#2802",
        "InternLM/xtuner#2044",
        "prime-rl docs/development.md",
        "vllm-project/vllm#43419",
    ),
)

_SHIFT = 0.02
_LOOKED_AT = 200_000
_ALIKE = 0.9
_SHADOWS = ("IS001", "IS003", "IS004", "IS006", "IS010", "IS014", "IS016", "IS023")


@dataclass(frozen=True)
class Middle:
    """The log-ratio of doubtful tokens: its median, its spread, and whether rollouts agree on the sign."""

    median: float
    spread: float
    alike: float


def probe(tokens: Tokens) -> Middle | None:
    """Measure the middle of the log-ratios."""
    tokens = tokens.head
    values = tokens.log_ratio[:_LOOKED_AT].compress(tokens.doubtful[:_LOOKED_AT])
    if values.size < 100:
        return None
    middle = median(values)
    spread = median(np.abs(values - middle))
    signs = tokens.sum(tokens.log_ratio * tokens.doubtful) * np.sign(middle)
    return Middle(middle, spread, float((signs > 0).mean()))


def judge(probed: Middle | None, evidence: Evidence) -> Finding | None:
    """Report a constant, or a level that no noise of healthy engines reaches."""
    if evidence.found(*_SHADOWS) or evidence.is_rounding:
        return None
    if probed is not None and _is_constant(probed):
        return _constant(probed, evidence)
    if evidence.found("IS017"):
        return None
    chosen = _first(evidence)
    k3 = evidence.k3_of(chosen)
    if k3 <= evidence.levels.limit:
        return None
    unknown = "" if evidence.versions_known else " The dump records no versions, so lag cannot be ruled out."
    return KIND.finding(
        "warning",
        f"k3 is {k3:.2g} nats per token over {int(chosen.sum()):,} rollouts {_which(evidence)}, "
        f"{k3 / evidence.levels.k3:.0f} times the healthy level of {evidence.levels.k3:g}.{unknown}",
        rollouts=int(chosen.sum()),
        tokens=int(evidence.rows.n[chosen].sum()),
        evidence={"k3": Figure(k3), "healthy_k3": Figure(evidence.levels.k3)},
    )


def _is_constant(found: Middle) -> bool:
    return abs(found.median) > max(_SHIFT, found.spread) and found.alike >= _ALIKE


def _constant(found: Middle, evidence: Evidence) -> Finding:
    return KIND.finding(
        "warning",
        f"The log-ratio has median {found.median:+.3f} nats over tokens with q below 0.9, {found.alike:.0%} of the "
        "rollouts lean the same way.",
        title="Constant offset between trainer and inference logprobs",
        consistent_with=KIND.consistent_with[2],
        rollouts=evidence.tokens.rollouts,
        evidence={"median": Figure(found.median), "spread": Figure(found.spread)},
    )


def _first(evidence: Evidence) -> Array:
    """bool [N], the rollouts of the first step that are not known to lag."""
    chosen = ~evidence.lagging if evidence.versions_known else np.ones(evidence.rows.rollouts, dtype=bool)
    step = evidence.column("step")
    if step is None or not np.isfinite(step[chosen]).any():
        return chosen
    return np.asarray(chosen & (step == np.nanmin(step[chosen])))


def _which(evidence: Evidence) -> str:
    lag = "at recorded lag 0" if evidence.versions_known else "of unknown lag"
    step = evidence.column("step")
    several = step is not None and np.unique(step[np.isfinite(step)]).size > 1
    return f"of the first step {lag}" if several else lag
