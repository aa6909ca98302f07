"""What is seen of the sample's tokens alone, whatever else there is to know of their dump."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iscope.analysis.findings import probe
from iscope.analysis.findings.tokens import Tokens
from iscope.analysis.gaps import Gaps, gaps_by_step
from iscope.analysis.positions import positions
from iscope.analysis.worst import furthest_tokens
from iscope.ledger.sample import Sample
from iscope.model import Node


@dataclass(frozen=True)
class Looked:
    """What is seen of the scored tokens of a sample.

    Attributes:
        tokens: the tokens.
        probed: what each kind of finding sees of them, by module.
        gaps: the median gap by step; None where steps are not asked for, or not known.
        positions: k3 and mean abs(d) by position.
        furthest: the tokens with the largest abs(d).
    """

    tokens: Tokens
    probed: dict[str, Any]
    gaps: Gaps | None
    positions: list[Node]
    furthest: list[Node]

    @classmethod
    def at(cls, sample: Sample, *, scored: bool, steps: bool) -> Looked:
        """Look at a sample.

        Args:
            sample: the sample.
            scored: whether any token of its dump is scored.
            steps: whether to look at the gap by step.
        """
        tokens = Tokens.of(sample)
        probed = probe(tokens, scored=scored)
        gaps = gaps_by_step(tokens) if steps else None
        return cls(tokens, probed, gaps, positions(tokens), [*furthest_tokens(tokens)])
