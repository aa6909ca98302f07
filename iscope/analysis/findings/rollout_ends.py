"""IS007: only the first or the last token of rollouts is off."""

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
    code="IS007",
    title="Packing boundary: the first or last token is off",
    meaning=(
        "Trainer and engine agree on a rollout but for its last token (or its first), where they are far apart. The "
        "token is scored with another one's label or context."
    ),
    consistent_with=(
        (
            "a label roll over a packed buffer, which gives a rollout's last token the first token of the next one as "
            "label"
        ),
        "an end token that was appended and never sampled",
        "the first token scored after another prompt, or without the chat template's last tokens",
    ),
    no_evidence_of="a mismatch between the policies elsewhere in the rollout",
    action="roll the labels of each rollout by itself and look at these positions in the trainer's collator",
    method=(
        "Rollouts of 8 or more tokens whose last (first) abs(d) is above 1 nat and above 20 times the mean of their "
        "other tokens, counted against how often a token in the middle is. Reported from three on where that rate "
        "gives so many with a chance below 1e-6. Counts are of the sample."
    ),
    sources=("verl-project/verl#6475", "NovaSky-AI/SkyRL#758", "radixark/miles#2722"),
)

_FEWEST_TOKENS = 8
_FAR = 1.0
_TIMES = 20.0
_FEWEST = 3
_CHANCE = 1e-6
_RARE = 1e-3


@dataclass(frozen=True)
class Ends:
    """Tokens that stand out: the rollouts' last ones, their first ones, and how many in the middle do of how many."""

    last: Array
    first: Array
    middle: int
    tried: int
    rollouts: int


def probe(tokens: Tokens) -> Ends:
    """Find the ends that stand out."""
    rows = np.flatnonzero(tokens.lengths >= _FEWEST_TOKENS)
    first = tokens.starts[rows]
    last = first + tokens.lengths[rows] - 1
    sums, lengths = (tokens.mean_magnitude * tokens.lengths)[rows], tokens.lengths[rows]
    middles = [first + lengths // 3, first + lengths // 2]

    def stand_out(places: Array) -> Array:
        size = tokens.distance(places).astype(np.float64)
        rest = np.maximum(sums - size, 0) / np.maximum(lengths - 1, 1)
        zeros = tokens.inference[places] == 0
        return np.asarray(places[(size > _FAR) & (size > _TIMES * rest) & ~zeros])

    middle = sum(int(stand_out(places).size) for places in middles)
    return Ends(stand_out(last), stand_out(first), middle, 2 * int(rows.size), int(rows.size))


def judge(probed: Ends, evidence: Evidence) -> Finding | None:
    """Report the end that stands out more often."""
    if evidence.found("IS003", "IS006"):
        return None
    name, places = max((("last", probed.last), ("first", probed.first)), key=lambda end: end[1].size)
    rate = max((probed.middle + 0.5) / (probed.tried + 1), _RARE)
    if places.size < _FEWEST or chance_of_at_least(places.size, probed.rollouts, rate) >= _CHANCE:
        return None
    tokens = evidence.tokens
    return KIND.finding(
        "error",
        f"The {name} token alone is off in {places.size:,} of {probed.rollouts:,} rollouts: by "
        f"{float(np.median(tokens.distance(places))):.1f} nats in the median, the rollouts' other tokens by less "
        f"than a {_TIMES:.0f}th of it; of tokens in the middle {probed.middle:,} of {probed.tried:,} stand out so.",
        title=f"Packing boundary: the {name} token is off" if name == "last" else "The first token is off",
        consistent_with=KIND.consistent_with[0 if name == "last" else 2],
        tokens=int(places.size),
        rollouts=int(places.size),
        examples=tokens.examples(places),
        evidence={
            "end": name,
            "share": Figure(places.size / probed.rollouts),
            "share_in_the_middle": Figure(probed.middle / probed.tried),
        },
    )
