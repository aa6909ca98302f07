"""IS018: logprobs stored in fewer bits than float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS018",
    title="Storage grid: logprobs rounded to few bits",
    meaning=(
        "Every value of a column lies on the grid of a format with fewer bits than float32. Rounding alone then makes "
        "a mismatch, a floor that no engine can get below and that bounds have to leave room for."
    ),
    consistent_with=("logprobs computed or stored in that format",),
    no_evidence_of="a fault of the policies",
    action="compute the log-softmax in float32 and store it as float32",
    method=(
        "The low mantissa bits of every non-zero value among the first 200,000 of the sample are 0: 16 of bf16, 13 of "
        "fp16, 20 of fp8 e4m3, 21 of fp8 e5m2. The floor is the variance of rounding, ulp^2 / 12, averaged over the "
        "tokens; k3 is about half of it."
    ),
    sources=("AI-Hypercomputer/maxtext#5231", "NVIDIA-NeMo/RL#3696"),
)

# Formats by the low mantissa bits of float32 that they leave at 0, coarsest first.
_FORMATS = (("fp8 e5m2", 21), ("fp8 e4m3", 20), ("bf16", 16), ("fp16", 13))
_LOOKED_AT = 200_000
_FEWEST = 64


@dataclass(frozen=True)
class Grid:
    """The format of a side's values, and the mean variance in nats^2 that rounding to it gives."""

    side: str
    format: str
    variance: float


def probe(tokens: Tokens) -> list[Grid]:
    """Return the sides that lie on a grid."""
    sides = (("trainer", tokens.trainer), ("inference", tokens.inference))
    found = (_grid(side, values[:_LOOKED_AT]) for side, values in sides)
    return [grid for grid in found if grid is not None]


def _grid(side: str, values: Array) -> Grid | None:
    values = np.ascontiguousarray(values[values != 0], dtype=np.float32)
    if np.unique(values[:4096]).size < _FEWEST:
        return None
    bits = int(np.bitwise_or.reduce(values.view(np.uint32)))
    for name, low in _FORMATS:
        if bits & ((1 << low) - 1) == 0:
            ulp = np.exp2(np.floor(np.log2(np.abs(values).astype(np.float64))) - (23 - low))
            return Grid(side, name, float((ulp**2).mean()) / 12)
    return None


def judge(probed: list[Grid], evidence: Evidence) -> Finding | None:
    """Report the grids and the floor they make."""
    if not probed:
        return None
    variance = sum(grid.variance for grid in probed)
    length = float(np.median(evidence.rows.n))
    told = ", ".join(f"{grid.side} logprobs lie on the {grid.format} grid" for grid in probed)
    of_mean = math.sqrt(variance / max(length, 1.0))
    return KIND.finding(
        "information",
        f"All {told}: rounding alone gives k3 {variance / 2:.1g} of {evidence.k3:.2g} nats per token, and at the "
        f"median length of {length:.0f} tokens a geometric ratio that scatters by {of_mean:.1g} around 1.",
        title=f"{probed[0].format} grid: logprobs stored in few bits",
        evidence={
            "formats": {grid.side: grid.format for grid in probed},
            "floor_k3": Figure(variance / 2),
            "floor_geometric_sd": Figure(of_mean),
            "floor_sequence_sd": Figure(math.sqrt(variance * length)),
        },
    )
