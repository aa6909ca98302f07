"""IS001: a logprob of exactly 0 that is no logprob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.analysis.findings.statistics import chance_of_at_least

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS001",
    title="Placeholder logprobs",
    meaning=(
        "One side holds exactly 0, probability 1, at sampled tokens to which the other side gives a probability below "
        "exp(-1). An honest 0 stands where the other side is almost certain too."
    ),
    consistent_with=(
        "a framework that fills in 0.0 where nothing was sampled (an end token appended by hand, tool output, an "
        "engine that does not compute logprobs)",
        "speculative decoding that returns 0.0 for every token",
        "temperature 0, whose processed logprobs are all 0",
    ),
    no_evidence_of="a mismatch between the two policies",
    action="set the loss mask to false at these tokens, or write the engine's own logprob of them",
    method=(
        "Zeros whose other side is below -1 are counted against the rate at which the other side is below -1 where "
        "this one is between -0.01 and 0: lag and noise move both alike. Reported where that rate gives so many with "
        "a chance below 1e-6 (Chernoff) and the other side is below -3 at a tenth of them, which noise that is cut "
        "off at 0 hardly reaches. Counts are of the sample."
    ),
    sources=("NovaSky-AI/SkyRL#758", "NovaSky-AI/SkyRL#354", "vllm-project/vllm#17876", "THUDM/slime#2197"),
)

UNSURE = -1.0  # a top-p of exp(-1) or more never leaves an honest 0 below it
_NEARLY = -0.01
_IMPROBABLE = -3.0
_FAR = 0.1
_CHANCE = 1e-6
_SPAN = 4
_CONSTANT = 0.99


@dataclass(frozen=True)
class Zeros:
    """Zeros of one side.

    Attributes:
        side: whose.
        places: int64, the tokens that hold a 0 the other side contradicts.
        zeros: how many hold 0 at all.
        near: tokens whose logprob is close to 0 but not 0.
        near_unsure: those of them that the other side contradicts.
        far: share of the contradicted zeros that the other side gives a probability below exp(-3).
    """

    side: str
    places: Array
    zeros: int
    near: int
    near_unsure: int
    far: float


def probe(tokens: Tokens) -> list[tuple[Zeros, dict[str, int]]]:
    """Return the zeros of both sides, and where the contradicted ones lie."""
    sides = (("inference", tokens.inference, tokens.trainer), ("trainer", tokens.trainer, tokens.inference))
    found = [_zeros(side, own, other) for side, own, other in sides]
    return [(zeros, _where(tokens, zeros.places)) for zeros in found]


def _zeros(side: str, own: Array, other: Array) -> Zeros:
    zeros = np.flatnonzero(own == 0)
    places = zeros[other[zeros] < UNSURE]
    if not places.size:
        return Zeros(side, places, int(zeros.size), 0, 0, 0.0)
    near = np.flatnonzero((own > _NEARLY) & (own < 0))
    far = float((other[places] < _IMPROBABLE).mean())
    return Zeros(side, places, int(zeros.size), int(near.size), int((other[near] < UNSURE).sum()), far)


def _where(tokens: Tokens, places: Array) -> dict[str, int]:
    """How many are a rollout's last scored token, and how many lie in spans of at least four."""
    if not places.size:
        return {"last": 0, "in_spans": 0}
    rows = tokens.row[places]
    last = places == (tokens.starts + tokens.lengths - 1)[rows]
    breaks = np.flatnonzero((np.diff(places) != 1) | (np.diff(rows) != 0)) + 1
    lengths = np.diff(np.concatenate([[0], breaks, [places.size]]))
    return {"last": int(last.sum()), "in_spans": int(lengths[lengths >= _SPAN].sum())}


def judge(probed: list[tuple[Zeros, dict[str, int]]], evidence: Evidence) -> Finding | None:
    """Report the side with more of them."""
    zeros, where = max(probed, key=lambda part: part[0].places.size)
    hits = int(zeros.places.size)
    rate = min((zeros.near_unsure + 0.5) / (zeros.near + 1), 1e-3 if zeros.near < 100 else 1.0)
    if zeros.far < _FAR or chance_of_at_least(hits, zeros.zeros, rate) >= _CHANCE:
        return None
    tokens = evidence.tokens
    rollouts = int(np.unique(tokens.row[zeros.places]).size)
    constant = zeros.zeros >= _CONSTANT * tokens.size
    return KIND.finding(
        "error",
        _shows(zeros, where, tokens.size, constant=constant),
        title=f"Placeholder logprobs on the {zeros.side} side" + (": the column is constant" if constant else ""),
        consistent_with=KIND.consistent_with[1] if constant else None,
        tokens=hits,
        rollouts=rollouts,
        examples=tokens.examples(zeros.places),
        evidence={
            "side": zeros.side,
            "zeros": zeros.zeros,
            "contradicted": hits,
            "last_tokens": where["last"],
            "in_spans": where["in_spans"],
            "tokens_looked_at": tokens.size,
        },
    )


def _shows(zeros: Zeros, where: dict[str, int], size: int, *, constant: bool) -> str:
    hits = int(zeros.places.size)
    other = "trainer" if zeros.side == "inference" else "inference engine"
    text = (
        f"The {zeros.side} logprob is exactly 0 at {hits:,} of {size:,} tokens to which the {other} gives a "
        f"probability below 0.37; {where['last']:,} of them are a rollout's last token, {where['in_spans']:,} lie in "
        f"spans of {_SPAN} or more."
    )
    return text + f" {zeros.zeros:,} tokens hold 0: no importance ratio can be computed." if constant else text
