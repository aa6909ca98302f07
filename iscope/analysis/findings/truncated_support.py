"""IS004: the engine renormalised over the tokens that top-p, top-k or min-p left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.findings.statistics import Estimate, ratio
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.model import Finding

KIND = Kind(
    code="IS004",
    title="Truncated support: top-p, top-k or min-p",
    meaning=(
        "Inference logprobs are higher than the trainer's almost everywhere and hardly ever lower, by the log of the "
        "probability mass that truncation left: the engine reports the renormalised distribution, the trainer scores "
        "the full one. The mean ratio is below 1, and no weight brings back the tokens that could not be sampled."
    ),
    consistent_with=("processed logprobs of an engine that samples with top-p, top-k or min-p",),
    no_evidence_of="noise of the engine, which goes both ways",
    action="sample with top_p=1, top_k=-1, min_p=0, or apply the same truncation to the trainer's logits",
    method=(
        "Mean rho - 1 is below -0.01 and 5 standard errors between groups below 0; of the log-ratios beyond 0.02 nats "
        "at tokens with q below 0.9 at least 80% are negative; and 99.9% of them are above log(0.1), a surviving "
        "mass, so that there is no heavy left tail. Contradicted zeros are left out. Real dumps without truncation: "
        "51% to 68% negative."
    ),
    sources=("huggingface/trl#7269", "verl-project/verl#6240", "NVIDIA-NeMo/RL#3385", "vllm-project/vllm#42259"),
)

_BIAS = -0.01
_SURE = -5.0
_NOISE = 0.02
_ONE_SIDED = 0.8
_SMALLEST_MASS = 0.1
_CERTAIN = math.log(0.99)
_SAME = 0.9
_LOOKED_AT = 200_000
_FEWEST = 200


@dataclass(frozen=True)
class Shape:
    """The shape of the log-ratios.

    Attributes:
        bias: mean rho - 1, by group.
        beyond: doubtful tokens with abs(d) above the noise.
        negative: share of them with d < 0.
        floor: the 0.1% quantile of d over doubtful tokens, nats.
        constant: whether d is the same, and not 0, at nearly all tokens with q above 0.99: an offset, no truncation.
    """

    bias: Estimate
    beyond: int
    negative: float
    floor: float
    constant: bool


def probe(tokens: Tokens) -> Shape | None:
    """Measure the shape; None where there are too few doubtful tokens."""
    tokens = tokens.head
    honest = tokens.doubtful & ~((tokens.inference == 0) & (tokens.trainer < -1))
    values = tokens.log_ratio.compress(honest)
    below, above = int((values < -_NOISE).sum()), int((values > _NOISE).sum())
    if below + above < _FEWEST or below < _ONE_SIDED * (below + above):
        return None
    excess = np.expm1(np.clip(tokens.log_ratio, -20, 20).astype(np.float64))
    return Shape(
        bias=ratio(tokens.sum(excess), tokens.lengths.astype(np.float64), tokens.clusters),
        beyond=below + above,
        negative=below / (below + above),
        floor=float(np.partition(values, values.size // 1000)[values.size // 1000]),
        constant=_is_constant(tokens),
    )


def _is_constant(tokens: Tokens) -> bool:
    certain = tokens.log_ratio.compress(tokens.inference > _CERTAIN)
    if certain.size < _FEWEST:
        return False
    middle = float(np.median(certain[:_LOOKED_AT]))
    return abs(middle) > _NOISE and float((np.abs(certain - middle) <= _NOISE).mean()) > _SAME


def judge(probed: Shape | None, evidence: Evidence) -> Finding | None:
    """Report a one-sided mismatch of the right size."""
    if probed is None or evidence.found("IS001", "IS003", "IS006"):
        return None
    if probed.bias.value > _BIAS or probed.bias.z() > _SURE:
        return None
    if probed.floor < math.log(_SMALLEST_MASS) or probed.constant:
        return None
    return KIND.finding(
        "error",
        f"The mean ratio is {1 + probed.bias.value:.3f} ({probed.bias.z():.0f} standard errors from 1), and "
        f"{probed.negative:.0%} of the {probed.beyond:,} log-ratios beyond {_NOISE} nats are negative, none far below "
        f"{probed.floor:.2f}: log of the surviving mass.{_recorded(evidence.tokens)}",
        tokens=probed.beyond,
        evidence={
            "mean_ratio": Figure(1 + probed.bias.value),
            "negative": Figure(probed.negative),
            "lowest_log_ratio": Figure(probed.floor),
        },
    )


def _recorded(tokens: Tokens) -> str:
    said = []
    for name in ("top_p", "top_k", "min_p"):
        values = tokens.settings(name)
        known = np.zeros(0) if values is None else np.unique(values[np.isfinite(values)])
        said += [f"{name} {value:g}" for value in known[:2]]
    return f" Recorded: {', '.join(said)}." if said else ""
